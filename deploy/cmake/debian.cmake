# CPack for two Debian packages: `leat` of the component `runtime`, and `leat-dev` of `dev`.
# deploy/package configures a build for them: prefix /usr, configs in /etc.
set(debian ${CMAKE_SOURCE_DIR}/deploy/debian)

# compressed(<file> <result>): gzip -n makes the same bytes whenever the packages are built.
function(compressed file result)
  cmake_path(GET file FILENAME name)
  set(made ${CMAKE_CURRENT_BINARY_DIR}/${name}.gz)
  execute_process(COMMAND gzip -9nc ${file} OUTPUT_FILE ${made} COMMAND_ERROR_IS_FATAL ANY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  set(${result} ${made} PARENT_SCOPE)
endfunction()

file(STRINGS ${debian}/changelog newest LIMIT_COUNT 1)
if(NOT newest MATCHES "^leat \\(${PROJECT_VERSION}\\) ")
  message(FATAL_ERROR "${debian}/changelog: expected it to begin with version ${PROJECT_VERSION}, "
    "received '${newest}'")
endif()
compressed(${debian}/changelog changelog)
install(FILES ${debian}/copyright ${changelog}
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/leat COMPONENT runtime)
install(FILES ${debian}/copyright ${changelog}
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/leat-dev COMPONENT dev)

# The bill of materials of this build: deploy/sbom.
set(sbom ${CMAKE_CURRENT_BINARY_DIR}/leat.spdx.json)
add_custom_command(OUTPUT ${sbom}
  COMMAND ${CMAKE_COMMAND} -DLEAT=$<TARGET_FILE:leat> -DOUTPUT=${sbom}
    -P ${CMAKE_SOURCE_DIR}/deploy/cmake/sbom.cmake
  DEPENDS leat leat_daemon ${CMAKE_SOURCE_DIR}/deploy/cmake/sbom.cmake
  COMMENT "Making the bill of materials")
add_custom_target(leat_sbom ALL DEPENDS ${sbom})
install(FILES ${sbom} DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/leat COMPONENT runtime)

set(CPACK_GENERATOR DEB)
set(CPACK_SET_DESTDIR ON)  # /etc is outside of the prefix
set(CPACK_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
  GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL runtime dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_OUTPUT_FILE_PREFIX ${CMAKE_BINARY_DIR}/packages)

set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
# A later one than the changelog's, for tests of an upgrade.
set(LEAT_PACKAGE_SUFFIX "" CACHE STRING "What the version of the packages has more: '+1'")
set(CPACK_DEBIAN_PACKAGE_VERSION ${PROJECT_VERSION}${LEAT_PACKAGE_SUFFIX})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "Leat maintainers <maintainers@users.noreply.a-seed-c7aac301.example>")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME leat)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "cluster that trains neural networks
A worker daemon on each machine hosts its devices; one master takes jobs,
compiles a job's dataflow graph of ONNX ops into one plan for all workers,
and has them step it. Training is reproducible to the bit, on any number of
threads, workers and machines of one kind, and survives the death of any of
its processes.
.
This package has the daemons, the leat command, and their services. Without
a change of its configuration they are a cluster on this machine alone.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
# The data set: /etc/leat/worker.yaml names its folder, and the shipped jobs train on it.
set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS
  "systemd-standalone-sysusers | systemd | systemd-sysusers, dataset-fashion-mnist")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA
  ${debian}/conffiles ${debian}/postinst ${debian}/prerm ${debian}/postrm)

set(CPACK_DEBIAN_DEV_PACKAGE_NAME leat-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_DESCRIPTION "cluster that trains neural networks (development files)
The headers and the CMake package for programs that open sessions on a Leat
cluster, submit jobs to it, or make graphs, with examples.")
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "leat (= ${CPACK_DEBIAN_PACKAGE_VERSION})")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "cmake, g++")

include(CPack)
