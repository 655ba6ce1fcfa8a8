# The systemd units load without a complaint, and are as closed as they were:
#
#   cmake -DLEATD=build/release/bin/leatd -P tests/deploy/units.cmake
cmake_minimum_required(VERSION 3.25)
cmake_path(SET root NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../..)

# The exposure that `systemd-analyze security` may find, times ten: a change that opens a unit further
# has to say so here.
# The master tells the users of its machine apart, and so has no PrivateUsers=, with which it was 12,
# and asks the kernel for them over AF_NETLINK, without which it was 14.
set(EXPOSURE_master 15)
# The worker has four capabilities for the users of its runners. It was 19 while runners, which read
# what jobs send, had the worker's user and its files.
set(EXPOSURE_worker 25)

find_program(ANALYZE systemd-analyze)
if(NOT ANALYZE)
  message("skipped: systemd-analyze is not installed (package systemd)")
  return()
endif()
execute_process(COMMAND mktemp -d OUTPUT_VARIABLE work OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

# Writes the unit of `daemon` as it would be installed with this build, and `more` after [Service].
# Sets `result` to what there is to complain about.
function(judge daemon more result)
  file(READ ${root}/deploy/systemd/leat-${daemon}.service text)
  string(REPLACE "ExecStart=/usr/bin/leatd" "ExecStart=${LEATD}" text "${text}")
  string(REPLACE "[Service]\n" "[Service]\n${more}" text "${text}")
  set(unit ${work}/leat-${daemon}.service)
  file(WRITE ${unit} "${text}")
  execute_process(COMMAND ${ANALYZE} verify --man=no ${unit}
    RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said TIMEOUT 60)
  set(complaints "")
  if(failed OR said)
    string(APPEND complaints "verify (${failed}): ${said}")
  endif()
  execute_process(COMMAND ${ANALYZE} security --offline=yes --no-pager --threshold=${EXPOSURE_${daemon}} ${unit}
    RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said TIMEOUT 60)
  if(failed)
    string(REGEX MATCH "[^\n]*Overall exposure[^\n]*" overall "${said}")
    string(APPEND complaints "security: expected at most ${EXPOSURE_${daemon}} tenths: ${overall}${said}")
  endif()
  set(${result} "${complaints}" PARENT_SCOPE)
endfunction()

set(problems "")
foreach(daemon master worker)
  judge(${daemon} "" complaints)
  if(complaints)
    string(APPEND problems "leat-${daemon}.service: ${complaints}\n")
  endif()
  # The judge must see faults: these are planted.
  foreach(bad "Nonsense=1\n" "WatchdogSec=often\n")
    judge(${daemon} "${bad}" complaints)
    if(NOT complaints)
      string(APPEND problems "leat-${daemon}.service: expected a complaint about ${bad}")
    endif()
  endforeach()
  set(EXPOSURE_${daemon} 1)
  judge(${daemon} "" complaints)
  if(NOT complaints MATCHES "security: expected at most 1 tenths")
    string(APPEND problems "leat-${daemon}.service: expected to exceed an exposure of 0.1\n")
  endif()
endforeach()

# oneDNN writes the code that it runs.
file(STRINGS ${root}/deploy/systemd/leat-worker.service closed REGEX "^(MemoryDenyWriteExecute|PrivateDevices)=")
if(closed)
  string(APPEND problems "leat-worker.service: expected none of ${closed}\n")
endif()

find_program(SYSUSERS systemd-sysusers)
if(SYSUSERS)
  execute_process(COMMAND ${SYSUSERS} --dry-run ${root}/deploy/systemd/leat.sysusers
    RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said TIMEOUT 60)
  if(failed)
    string(APPEND problems "leat.sysusers (${failed}): ${said}\n")
  endif()
endif()
file(REMOVE_RECURSE ${work})
if(problems)
  message(FATAL_ERROR "${problems}")
endif()
