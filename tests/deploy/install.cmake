# A copy of a build's bin/ and lib/, and what is installed, work where they are, with the libraries
# beside them; a program outside of this tree is built against what is installed:
#
#   cmake -DBUILD=build/release -P tests/deploy/install.cmake
cmake_minimum_required(VERSION 3.25)
cmake_path(SET root NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../..)
execute_process(COMMAND mktemp -d OUTPUT_VARIABLE work OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

set(problems "")
# run(<exit code> command...): sets `said` to what it printed.
function(run expected)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE said ERROR_VARIABLE said TIMEOUT 120)
  if(NOT code EQUAL expected)
    string(APPEND problems "${ARGN}: expected exit code ${expected}, received ${code}: ${said}\n")
    set(problems "${problems}" PARENT_SCOPE)
  endif()
  set(said "${said}" PARENT_SCOPE)
endfunction()

# Says what is wrong with the RUNPATH of a file: an entry that is empty names the current folder, and
# one that is absolute the machine that built it.
function(judge_runpath file result)
  run(0 readelf -d ${file})
  set(problems "${problems}" PARENT_SCOPE)
  set(${result} "" PARENT_SCOPE)
  if(NOT said MATCHES "\\(RU?N?PATH\\)[^\n]*\\[([^\n]*)\\]\n")
    return()
  endif()
  set(path "${CMAKE_MATCH_1}")
  string(REPLACE ":" ";" entries ":${path}:")
  list(POP_FRONT entries)
  list(POP_BACK entries)
  foreach(entry IN LISTS entries)
    if(NOT entry MATCHES "^[$]ORIGIN(/|$)")
      set(${result} "${file}: expected a RUNPATH of folders relative to $ORIGIN, received '${path}'\n" PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# expect_own_libraries(<folder> programs and libraries...): all of ours that they load is below it.
function(expect_own_libraries folder)
  foreach(file IN LISTS ARGN)
    judge_runpath(${file} complaint)
    string(APPEND problems "${complaint}")
    run(0 ldd ${file})
    string(REGEX MATCHALL "libleat_[^\n]*" loaded "${said}")
    foreach(line IN LISTS loaded)
      string(FIND "${line}" " => ${folder}/" found)
      if(found EQUAL -1)
        string(APPEND problems "${file}: expected its libraries below ${folder}, received '${line}'\n")
      endif()
    endforeach()
    if(file MATCHES "/bin/" AND NOT loaded)
      string(APPEND problems "${file}: expected it to load libraries of ours, received '${said}'\n")
    endif()
  endforeach()
  set(problems "${problems}" PARENT_SCOPE)
endfunction()

function(expect_to_run folder)
  run(0 ${folder}/bin/leat --version)
  run(0 ${folder}/bin/leatd --version)
  file(GLOB libraries ${folder}/lib/libleat_*.so.* ${folder}/lib/leat/*.so.* ${folder}/lib/*/leat/*.so.*)
  if(NOT libraries)
    string(APPEND problems "expected libraries below ${folder}/lib\n")
  endif()
  expect_own_libraries(${folder} ${folder}/bin/leat ${folder}/bin/leatd ${libraries})
  set(problems "${problems}" PARENT_SCOPE)
endfunction()

# --- the build tree, and a copy of it ---

file(GLOB built ${BUILD}/bin/* ${BUILD}/lib/*.so)
foreach(file IN LISTS built)
  if(NOT IS_DIRECTORY ${file})
    judge_runpath(${file} complaint)
    string(APPEND problems "${complaint}")
  endif()
endforeach()
file(MAKE_DIRECTORY ${work}/copy/bin)
file(COPY ${BUILD}/bin/leat ${BUILD}/bin/leatd DESTINATION ${work}/copy/bin)
file(COPY ${BUILD}/lib DESTINATION ${work}/copy)
expect_to_run(${work}/copy)

# --- what is installed ---

set(prefix ${work}/prefix)
run(0 ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
expect_to_run(${prefix})
foreach(daemon master worker)
  run(0 ${prefix}/bin/leatd config show ${daemon} --config ${prefix}/etc/leat/${daemon}.yaml)
  set(unit ${prefix}/lib/systemd/system/leat-${daemon}.service)
  file(STRINGS ${unit} starts REGEX "^ExecStart=/.*/leatd ${daemon} --config /.*/leat/${daemon}.yaml$")
  file(STRINGS ${unit} user REGEX "^User=leat$")
  if(NOT starts OR NOT user)
    string(APPEND problems "${unit}: expected it to start leatd ${daemon} as leat\n")
  endif()
endforeach()
file(STRINGS ${prefix}/lib/sysusers.d/leat.conf user REGEX "^u leat ")
if(NOT user)
  string(APPEND problems "${prefix}/lib/sysusers.d/leat.conf: expected the user leat\n")
endif()
foreach(file share/doc/leat/daemons.md share/doc/leat/examples/jobs/fashion_mnist_mlp.yaml
    share/man/man1/leat-plot.1.gz share/man/man8/leatd-master.8.gz
    share/bash-completion/completions/leat)
  if(NOT EXISTS ${prefix}/${file})
    string(APPEND problems "expected ${prefix}/${file}\n")
  endif()
endforeach()
# The job that comes along finds its graph beside it.
run(0 ${prefix}/bin/leat plan ${prefix}/share/doc/leat/examples/jobs/fashion_mnist_mlp.yaml)

# --- what is built against it ---

# No header but those installed: none of this tree's, should one be missing.
run(0 ${CMAKE_COMMAND} -S ${prefix}/share/doc/leat-dev/examples -B ${work}/examples
  -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS=-Werror)
run(0 ${CMAKE_COMMAND} --build ${work}/examples --parallel 2)
run(1 ${work}/examples/fit_a_line)
if(NOT said MATCHES "usage: fit_a_line ADDRESS")
  string(APPEND problems "fit_a_line: expected its usage, received '${said}'\n")
endif()

file(REMOVE_RECURSE ${work})
if(problems)
  message(FATAL_ERROR "${problems}")
endif()
