# room(NAME SOURCES... [USES rooms and libraries that its headers show] [HIDES libraries only its sources see])
# A room is one static library, portwright_NAME, and can include only what it uses.
add_library(portwright_warnings INTERFACE)
# g++ 12 sees overlapping copies in std::string where there are none (GCC bug 105651).
target_compile_options(portwright_warnings INTERFACE -Wall -Wextra -Wshadow -Wconversion
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<BOOL:${PORTWRIGHT_WERROR}>:-Werror>)
if(PORTWRIGHT_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer)
  # Inside the program, so that dlopen goes by the program's RUNPATH and not by that of a sanitizer library.
  add_link_options(-fsanitize=address,undefined -static-libasan)
endif()
if(PORTWRIGHT_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address)
endif()

function(room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;USES;HIDES" ${ARGN})
  add_library(portwright_${name} STATIC ${ROOM_SOURCES})
  target_include_directories(portwright_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(portwright_${name} PUBLIC ${ROOM_USES} PRIVATE portwright_warnings ${ROOM_HIDES})
endfunction()

# room_test(NAME ROOM SOURCES...): GoogleTest cases of one room, found by ctest. A source main.cc brings its own main().
function(room_test name used)
  add_executable(test_${name} ${ARGN})
  if("main.cc" IN_LIST ARGN)
    set(main GTest::gtest)
  else()
    set(main GTest::gtest_main)
  endif()
  target_link_libraries(test_${name} PRIVATE ${used} portwright_warnings ${main})
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  # OpenVINO's thread library opens its parts in a way that the address sanitizer refuses, unless told of it.
  gtest_discover_tests(test_${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 ENVIRONMENT TBB_ENABLE_SANITIZERS=1)
endfunction()
