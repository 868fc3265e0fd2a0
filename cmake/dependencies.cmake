# Where third-party code comes from. scripts/setup writes .deps.cmake; nothing is downloaded here.
set(deps ${PROJECT_SOURCE_DIR}/.deps.cmake)
if(NOT EXISTS ${deps})
  message(FATAL_ERROR "the dependencies are not set up\nhint: run scripts/setup, or make build")
endif()
include(${deps})

find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
find_package(tl-expected REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Protobuf REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
# Not by CMake: Debian 12's package file asks for programs (zipcmp) that its -dev package does not bring.
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET libzip)

set(ONNX_DIR ${PORTWRIGHT_ONNX_DIR}/lib/cmake/ONNX)  # whatever an earlier configuration has found
find_package(ONNX CONFIG REQUIRED NO_DEFAULT_PATH)

# Not linked: the program loads it when it is first needed, and finds it by its RUNPATH.
add_library(onnxruntime::onnxruntime INTERFACE IMPORTED)
set_target_properties(onnxruntime::onnxruntime PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES ${PORTWRIGHT_ONNXRUNTIME_DIR}/include
  INTERFACE_LINK_OPTIONS LINKER:-rpath,${PORTWRIGHT_ONNXRUNTIME_DIR}/lib
  INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}")

set(OpenVINO_DIR ${PORTWRIGHT_OPENVINO_DIR}/cmake)
find_package(OpenVINO REQUIRED COMPONENTS Runtime)
