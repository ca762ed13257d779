# Compile rules shared by every folder, and the two helpers that define one.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

option(DI_TESTS "build the tests" ON)
option(DI_BENCH "build the benchmarks" OFF)
option(DI_FUZZ "build the libFuzzer targets (clang)" OFF)
option(DI_WERROR "warnings are errors" OFF)
set(DI_SANITIZE "" CACHE STRING "address (with undefined), thread, or empty")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

# Results must not depend on what a compiler may fuse or reorder: kernels write fma by name, nothing is "fast" (design rule:
# one arithmetic on every path). -fno-trapping-math only allows comparisons to be vectorised; it changes no value.
add_compile_options(-ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra -Wno-psabi -Wno-missing-field-initializers)
if(DI_WERROR)
  add_compile_options(-Werror)
endif()
if(DI_FUZZ)
  # Coverage for libFuzzer in every object; the address runtime supplies its symbols to binaries that are not fuzz targets.
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang" OR NOT DI_SANITIZE STREQUAL "address")
    message(FATAL_ERROR "DI_FUZZ needs clang (found ${CMAKE_CXX_COMPILER_ID}) and DI_SANITIZE=address (found '${DI_SANITIZE}')")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(DI_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=address,undefined)
elseif(DI_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -g1)
  add_link_options(-fsanitize=thread)
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_library(DI_UTF8PROC utf8proc REQUIRED)
find_library(DI_XXHASH xxhash REQUIRED)

# Several files of a target become one compile unit, which halves the time of a clean build: headers are read once. So names in
# anonymous namespaces are unique within a folder; targets where that is a burden say ALONE.
function(di_unity target alone)
  if(NOT alone)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

# di_library(NAME [ALONE] [DEPS targets...] SOURCES files...): the static library di_NAME of one folder.
function(di_library name)
  cmake_parse_arguments(A "ALONE" "" "DEPS;SOURCES" ${ARGN})
  add_library(di_${name} STATIC ${A_SOURCES})
  di_unity(di_${name} "${A_ALONE}")
  target_include_directories(di_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(di_${name} PUBLIC fmt::fmt ${A_DEPS})
endfunction()

# di_test(NAME [ALONE] DEPS targets... SOURCES files...): one binary of GoogleTest cases. Suites whose name ends in "Full" get the label
# `full`, all others `quick` (./test.sh runs quick; --full runs both).
function(di_test name)
  cmake_parse_arguments(A "ALONE" "TIMEOUT" "DEPS;SOURCES" ${ARGN})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 900)
  endif()
  add_executable(${name}_test ${A_SOURCES})
  di_unity(${name}_test "${A_ALONE}")
  target_link_libraries(${name}_test PRIVATE GTest::gtest_main ${A_DEPS})
  target_compile_definitions(${name}_test PRIVATE DI_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gtest_discover_tests(${name}_test TEST_PREFIX ${name}. NO_PRETTY_VALUES TEST_FILTER "-*Full.*:*Full/*"
    DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES LABELS quick TIMEOUT ${A_TIMEOUT})
  gtest_discover_tests(${name}_test TEST_PREFIX ${name}. NO_PRETTY_VALUES TEST_FILTER "*Full.*:*Full/*"
    DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_LIST ${name}_full PROPERTIES LABELS full TIMEOUT 3600)
endfunction()
