// How many rows of a matrix have their largest element at the same place in two tensors, when the elements come in
// pieces that may begin and end anywhere.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace portwright {

// The largest element so far and its index. As in NumPy and PyTorch the first wins, and NaN is larger than any number.
class Peak {
 public:
  void add(double value, std::size_t index) {
    if (any_ && !(value > value_) && !(std::isnan(value) && !std::isnan(value_))) return;
    any_ = true;
    value_ = value;
    index_ = index;
  }
  void add(const Peak& next) {
    if (next.any_) add(next.value_, next.index_);
  }
  std::size_t index() const { return index_; }

 private:
  bool any_ = false;
  double value_ = 0;
  std::size_t index_ = 0;
};

struct PeakPair {
  Peak actual, reference;
  void add(const PeakPair& next) {
    actual.add(next.actual);
    reference.add(next.reference);
  }
  std::uint64_t agrees() const { return actual.index() == reference.index() ? 1 : 0; }
};

// What is known of a run of consecutive elements. Runs are joined in order: the last row of one and the first of the
// next may be the same row.
class RowAgreement {
 public:
  // A part of one row; `ends_row` when the row ends with it.
  void add(const PeakPair& part, bool ends_row) {
    open_.add(part);
    if (ends_row) close_row();
  }
  void append(const RowAgreement& next) {
    if (next.closed_) {
      open_.add(next.first_);
      close_row();
      agreeing_ += next.agreeing_;
    }
    open_.add(next.open_);
  }
  // Of all rows, once the elements from the first to the last are in.
  std::uint64_t agreeing() const { return agreeing_ + (closed_ ? first_.agrees() : 0); }

 private:
  void close_row() {
    if (closed_)
      agreeing_ += open_.agrees();
    else
      first_ = open_;  // it may have begun before this run
    closed_ = true;
    open_ = {};
  }

  PeakPair first_, open_;       // the row that the run begins in, and the one that it ends in
  bool closed_ = false;         // the first row has ended
  std::uint64_t agreeing_ = 0;  // of the rows between them
};

}  // namespace portwright
