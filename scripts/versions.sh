# Versions of the native dependencies that scripts/setup puts into the cache.
ONNX_VERSION=1.23.2
ONNXRUNTIME_VERSION=1.32.0
OPENVINO_VERSION=2026.4.1
# Suite whose libonnxruntime-dev headers are unpacked where the distribution has none (Debian 12).
ONNXRUNTIME_HEADERS_SUITE=trixie
