#include "base/digest.h"

#include <openssl/evp.h>

#include <array>
#include <memory>

#include "base/files.h"

namespace portwright {
namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }
  void add(std::span<const std::byte> bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }
  // The length goes first, so that neighbouring fields cannot run into each other.
  void add_field(std::string_view text) {
    const std::uint64_t size = text.size();
    add(std::as_bytes(std::span(&size, 1)));
    add(std::as_bytes(std::span(text)));
  }
  std::string finish() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_.get(), raw.data(), &size);
    static constexpr char kHex[] = "0123456789abcdef";
    std::string out = "sha256:";
    for (unsigned int i = 0; i < size; ++i) {
      out += kHex[raw[i] >> 4];
      out += kHex[raw[i] & 15];
    }
    return out;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

}  // namespace

std::string digest(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.add(bytes);
  return sha.finish();
}

std::string digest(std::string_view text) { return digest(std::as_bytes(std::span(text))); }

Result<std::string> digest_file(const std::filesystem::path& file) {
  PW_TRY(mapping, Mapping::open(file));
  return digest(mapping->bytes());
}

std::string digest(const Tensors& tensors) {
  Sha256 sha;
  for (const auto& [name, tensor] : tensors) {
    sha.add_field(name);
    sha.add_field(to_string(tensor.dtype()));
    sha.add_field(to_string(tensor.shape()));
    sha.add(tensor.bytes());
  }
  return sha.finish();
}

}  // namespace portwright
