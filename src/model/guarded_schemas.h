// The operators of the ONNX library, for shape inference on models that nobody has looked at yet.
#pragma once

#include <onnx/defs/schema.h>

namespace portwright {

// The library's own schemas. Where its inference hangs or crashes on attributes or types that a broken or hostile model
// may have, they say what is wrong instead, as an error of inference. May be used by several threads.
const onnx::ISchemaRegistry& guarded_schemas();

}  // namespace portwright
