# Which includes a file may have. As a script it checks the source tree:
#
#   cmake -P tests/layering/layering.cmake
cmake_minimum_required(VERSION 3.25)

# A folder includes itself and the folders to its left.
set(LAYERS devices transport ops scheduler daemon)
# The floors of each folder, bottom to top: a floor includes itself and those before it. A floor is a
# subfolder, or, as "name:file,file", those files of the folder itself, without their extensions: its
# public contracts at the bottom, its catalogue at the top. Every file is on a floor.
set(FLOORS_devices base core cpu cuda)
set(FLOORS_transport contracts:channel,endpoint,link,link_counters,link_fault,slots seal rpc io links local shm tcp direct
  catalogue:catalogue)
set(FLOORS_ops elements formats images graph state data definitions cpu cuda layers text capnp onnx catalogue:catalogue,plugins)
set(FLOORS_scheduler recipes graph plan capnp strategies compile runtime)
set(FLOORS_daemon base authority spec chaos metrics curves audit jobs traces checkpoint hosts session training wire lasting process confine
  status client remote master worker runner doctor cli leatd)
# Parts of a folder that see less than their floor does: "<part> <rightmost layer> <also>". A program
# that embeds a client needs neither plans nor daemons.
set(NARROWER "daemon/client ops daemon/(client|wire|jobs|spec|base|traces)")

# Third-party headers: "<pattern of the header> <pattern of the files that may include it>". Libraries
# that are heavy, or whose version may have to change, stay in a few .cc files and out of all headers.
set(CONFINED
  # A machine without CUDA builds everything else.
  "^cuda_ ^((devices|ops)/cuda|tests/cuda(_emulation)?)/"
  "^(dnnl|oneapi/|omp\\.h) ^ops/cpu/onednn[a-z_]*\\.cc$"
  "^(yaml-cpp|nlohmann|CLI|spdlog|openssl|boost|google|zlib)[/.] \\.cc$"
  # wire_*.h are private to files that know Cap'n Proto. Those of the control plane that have it in
  # them are for .cc files.
  "^(capnp|kj)/ (\\.cc|/wire_[a-z_]+\\.h|^daemon/wire/[a-z_]+\\.h|^transport/rpc/[a-z_]+\\.h|/rpc_testing\\.h)$"
  "^transport/rpc/(call|chunks|client|guard|ledger|loop_context|server|service)\\.h$ (\\.cc|/wire_[a-z_]+\\.h|^daemon/wire/[a-z_]+\\.h|^transport/rpc/[a-z_]+\\.h|/rpc_testing\\.h)$"
  "\\.(capnp|pb)\\.h$ (\\.cc|/wire_[a-z_]+\\.h|^daemon/wire/[a-z_]+\\.h|^transport/rpc/[a-z_]+\\.h|/rpc_testing\\.h)$"
  "^sqlite3 ^(daemon/jobs/sqlite|ops/data/sources/sql(ite|_connection)|tests/ops/(source_tables|guess|hostile_tables|bounded_memory)_test|tests/daemon/(lost_journal_test|table_files|jobs/(sqlite_on_disk|journal_disk_test)|lasting/sealed_log_test)|tests/daemon/sim/sim_journal)\\.cc$"
  "^(jpeglib|jerror|png|webp/) ^ops/images/[a-z]+\\.cc$"
  "^curl/ ^ops/data/stores/url_client\\.cc$"
  "^seccomp\\.h$ ^daemon/confine/call_list\\.cc$"
  "^catch2/ ^tests/catch(\\.h|_main\\.cc)$")
# Those that cost every build seconds: "<pattern of the header> <files of the layers at most>".
set(HEAVY "^yaml-cpp/ 2" "^nlohmann/ 6" "^CLI/ 7" "^boost/beast 2")

function(layer_rank path result)
  string(REGEX REPLACE "/.*" "" layer "${path}")
  list(FIND LAYERS "${layer}" rank)
  set(${result} ${rank} PARENT_SCOPE)
endfunction()

# The rightmost layer that `file` may include, and the folder that it may include in any case.
function(find_limit file limit own)
  layer_rank("${file}" rank)
  string(REGEX REPLACE "/.*" "" folder "${file}")
  foreach(rule IN LISTS NARROWER)
    string(REGEX MATCH "^([^ ]*) ([^ ]*) (.*)$" rule "${rule}")
    set(part "${CMAKE_MATCH_1}")
    set(rightmost "${CMAKE_MATCH_2}")
    set(also "${CMAKE_MATCH_3}")
    if(file MATCHES "^${part}/")
      set(folder "${also}")
      layer_rank("${rightmost}" rank)
    endif()
  endforeach()
  set(${limit} ${rank} PARENT_SCOPE)
  set(${own} ${folder} PARENT_SCOPE)
endfunction()

# The number of the floor that `path` is on, from 0, and the list of its folder; -1 if it is on none.
function(floor_rank path result floors)
  string(REGEX MATCH "^([^/]+)/([^/]+)(/?)" found "${path}")
  set(room "${CMAKE_MATCH_2}")
  set(list ${FLOORS_${CMAKE_MATCH_1}})
  if(NOT CMAKE_MATCH_3)
    string(REGEX REPLACE "\\..*" "" room "${room}")
    list(TRANSFORM list REPLACE "^[^:]+$" "/")
  endif()
  set(rank -1)
  set(number 0)
  foreach(floor IN LISTS list)
    string(REGEX REPLACE "^[^:]*:" "" files "${floor}")
    string(REPLACE "," ";" files "${files}")
    if(room IN_LIST files)
      set(rank ${number})
    endif()
    math(EXPR number "${number} + 1")
  endforeach()
  set(${result} ${rank} PARENT_SCOPE)
  set(${floors} "${list}" PARENT_SCOPE)
endfunction()

# Sets `result` to the reason why `file`, a path from the root, may not include `header`; "" if it may.
function(judge_include file header result)
  set(${result} "" PARENT_SCOPE)
  foreach(rule IN LISTS CONFINED)
    string(REGEX MATCH "^([^ ]*) (.*)$" rule "${rule}")
    set(allowed "${CMAKE_MATCH_2}")
    if(header MATCHES "${CMAKE_MATCH_1}" AND NOT file MATCHES "${allowed}")
      set(${result} "expected only in ${allowed}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  find_limit("${file}" limit own)
  if(limit EQUAL -1)
    return()  # tests see everything
  endif()
  if(header MATCHES "^tests/|^\\.\\.?/|/\\.\\.?/")
    set(${result} "expected a path from the root into a layer" PARENT_SCOPE)
    return()
  endif()
  layer_rank("${header}" rank)
  if(rank GREATER limit AND NOT header MATCHES "^${own}/")
    list(GET LAYERS ${limit} rightmost)
    set(${result} "expected ${rightmost} or what is to its left" PARENT_SCOPE)
    return()
  endif()
  layer_rank("${file}" own_rank)
  if(rank EQUAL own_rank)
    floor_rank("${file}" floor floors)
    floor_rank("${header}" included floors)
    if(included EQUAL -1)
      set(${result} "expected a header that is on a floor" PARENT_SCOPE)
    elseif(included GREATER floor AND NOT floor EQUAL -1)
      set(${result} "expected its own floor or one below it" PARENT_SCOPE)
    endif()
  endif()
endfunction()

# Sets `result` to one line for each violation in the tree at `root`.
function(find_layering_violations root result)
  list(TRANSFORM LAYERS REPLACE "(.+)" "${root}/\\1/*.h;${root}/\\1/*.cc;${root}/\\1/*.cu;${root}/\\1/*.cuh" OUTPUT_VARIABLE globs)
  file(GLOB_RECURSE files RELATIVE ${root} ${globs} ${root}/tests/*.h ${root}/tests/*.cc)
  foreach(file IN LISTS files)
    floor_rank("${file}" floor floors)
    if(floor EQUAL -1 AND NOT file MATCHES "^tests/")
      list(APPEND found "${file}: expected on a floor of its folder, which FLOORS_... lists")
    endif()
    file(STRINGS ${root}/${file} lines REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^[^<\"]*[<\"]([^>\"]*).*" "\\1" header "${line}")
      judge_include("${file}" "${header}" wrong)
      if(wrong)
        list(APPEND found "${file}: includes ${header}, ${wrong}")
      endif()
      foreach(rule IN LISTS HEAVY)
        string(REGEX MATCH "^([^ ]*) " pattern "${rule}")
        if(header MATCHES "${CMAKE_MATCH_1}" AND NOT file MATCHES "^tests/")
          list(APPEND heavy_uses "${rule} ${file}")
        endif()
      endforeach()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES heavy_uses)
  foreach(rule IN LISTS HEAVY)
    set(users ${heavy_uses})
    list(FILTER users INCLUDE REGEX "^\\${rule} ")
    list(TRANSFORM users REPLACE "^.* " "")
    list(LENGTH users count)
    string(REGEX MATCH "^([^ ]*) (.*)$" rule "${rule}")
    if(count GREATER CMAKE_MATCH_2)
      list(JOIN users ", " users)
      list(APPEND found "${CMAKE_MATCH_1}: expected in at most ${CMAKE_MATCH_2} files, it is in ${users}")
    endif()
  endforeach()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  cmake_path(SET root NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../..)
  find_layering_violations(${root} violations)
  list(JOIN violations "\n  " text)
  if(violations)
    message(FATAL_ERROR "includes that cross the layers:\n  ${text}")
  endif()
endif()
