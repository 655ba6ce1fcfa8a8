# Writes the bill of materials of a build as an SPDX 2.3 document: Leat, and each library of others
# with the version that the build found. deploy/sbom calls it, and the build of the Debian packages.
# Equal builds on equal machines give equal bytes. Needs no network.
#
#   cmake -DLEAT=build/release/bin/leat -DOUTPUT=leat.spdx.json -P deploy/cmake/sbom.cmake
#
# The time in it is SOURCE_DATE_EPOCH, or else that of the newest entry in deploy/debian/changelog.
cmake_minimum_required(VERSION 3.25)
cmake_path(SET root NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../..)
foreach(needed LEAT OUTPUT)
  if(NOT DEFINED ${needed})
    message(FATAL_ERROR "sbom: expected -D${needed}=...")
  endif()
endforeach()

execute_process(COMMAND ${LEAT} version --all --json OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY
  OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REPLACE ";" "," lines "${lines}")
string(REPLACE "\n" ";" lines "${lines}")

# quoted(<variable> <text>): the text as a string of JSON.
function(quoted result text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  set(${result} "\"${text}\"" PARENT_SCOPE)
endfunction()

# owner_of(<variable> files...): the Debian package of the first file that has one, as a package URL
# "pkg:deb/debian/libdnnl2@2.6.3-1?arch=amd64"; "" where there is no dpkg.
find_program(DPKG_QUERY dpkg-query)
function(owner_of result)
  set(${result} "" PARENT_SCOPE)
  if(NOT DPKG_QUERY)
    return()
  endif()
  foreach(file IN LISTS ARGN)
    string(REGEX REPLACE "^/usr/" "/" merged ${file})  # dpkg may know the path before /usr was merged
    foreach(path ${file} ${merged})
      execute_process(COMMAND ${DPKG_QUERY} --search ${path} OUTPUT_VARIABLE owner ERROR_QUIET)
      if(owner MATCHES "^([^:]+):")
        execute_process(COMMAND ${DPKG_QUERY} --show "--showformat=\${Version}?arch=\${Architecture}"
          ${CMAKE_MATCH_1} OUTPUT_VARIABLE version ERROR_QUIET)
        string(REGEX REPLACE "^([^:]+):.*" "\\1" name "${owner}")
        string(REPLACE "+" "%2B" name ${name})
        string(REPLACE "+" "%2B" version ${version})
        set(${result} "pkg:deb/debian/${name}@${version}" PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endforeach()
endfunction()

# package(<id> <name> <version> <license> <purl>): an entry, in `text`.
function(package id name version license purl)
  quoted(name "${name}")
  quoted(version "${version}")
  set(reference "")
  if(purl)
    quoted(purl "${purl}")
    set(reference ",
     \"externalRefs\": [{\"referenceCategory\": \"PACKAGE-MANAGER\", \"referenceType\": \"purl\",
                       \"referenceLocator\": ${purl}}]")
  endif()
  set(text "    {\"SPDXID\": \"${id}\", \"name\": ${name}, \"versionInfo\": ${version},
     \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false,
     \"licenseConcluded\": \"NOASSERTION\", \"licenseDeclared\": \"${license}\",
     \"copyrightText\": \"NOASSERTION\"${reference}}" PARENT_SCOPE)
endfunction()

set(packages "")
set(relationships "    {\"spdxElementId\": \"SPDXRef-DOCUMENT\", \"relationshipType\": \"DESCRIBES\",
     \"relatedSpdxElement\": \"SPDXRef-leat\"}")
set(nvidia "")
foreach(line IN LISTS lines)
  string(JSON kind GET "${line}" kind)
  if(kind STREQUAL "Version")
    string(JSON version GET "${line}" version)
    string(JSON commit GET "${line}" commit)
    string(JSON compiler GET "${line}" compiler)
    set(whole ${version})
    if(commit)
      string(APPEND whole "+${commit}")
    endif()
    package(SPDXRef-leat Leat "${whole}" Apache-2.0 "")
  else()
    string(JSON name GET "${line}" name)
    string(JSON license GET "${line}" license)
    string(JSON built GET "${line}" built)
    string(JSON runs GET "${line}" runs)
    string(JSON count LENGTH "${line}" files)
    set(files "")
    if(count GREATER 0)
      math(EXPR last "${count} - 1")
      foreach(i RANGE ${last})
        string(JSON file GET "${line}" files ${i})
        list(APPEND files ${file})
      endforeach()
    endif()
    if(license MATCHES "^LicenseRef-")
      set(nvidia ",
  \"hasExtractedLicensingInfos\": [{\"licenseId\": \"${license}\", \"extractedText\": \"The license that comes with the library.\"}]")
    endif()
    if(NOT built)
      set(built "${runs}")
    endif()
    string(MAKE_C_IDENTIFIER "${name}" id)
    string(REPLACE "_" "-" id ${id})
    owner_of(purl ${files})
    package(SPDXRef-${id} "${name}" "${built}" "${license}" "${purl}")
    # A library that is loaded, or code that is part of ours.
    set(kind DYNAMIC_LINK)
    string(JSON count LENGTH "${line}" libraries)
    if(count EQUAL 0 AND NOT license MATCHES "^LicenseRef-")
      set(kind STATIC_LINK)
    endif()
    string(APPEND relationships ",
    {\"spdxElementId\": \"SPDXRef-leat\", \"relationshipType\": \"${kind}\",
     \"relatedSpdxElement\": \"SPDXRef-${id}\"}")
  endif()
  if(packages)
    string(APPEND packages ",\n")
  endif()
  string(APPEND packages "${text}")
endforeach()

# created: of the changelog, which has the day of a release, unless the caller sets it.
if("$ENV{SOURCE_DATE_EPOCH}" STREQUAL "")
  file(STRINGS ${root}/deploy/debian/changelog day LIMIT_COUNT 1 REGEX "^ -- ")
  string(REGEX REPLACE ".*  " "" day "${day}")
  execute_process(COMMAND date --date=${day} +%s OUTPUT_VARIABLE epoch OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  set(ENV{SOURCE_DATE_EPOCH} ${epoch})
endif()
string(TIMESTAMP created "%Y-%m-%dT%H:%M:%SZ" UTC)
quoted(comment "Compiled by ${compiler}")
string(SHA256 unique "${packages}${relationships}")

file(WRITE ${OUTPUT} "{
  \"spdxVersion\": \"SPDX-2.3\",
  \"dataLicense\": \"CC0-1.0\",
  \"SPDXID\": \"SPDXRef-DOCUMENT\",
  \"name\": \"leat-${version}\",
  \"documentNamespace\": \"urn:sha256:${unique}\",
  \"creationInfo\": {\"created\": \"${created}\", \"creators\": [\"Tool: leat-sbom-${version}\"], \"comment\": ${comment}}${nvidia},
  \"packages\": [
${packages}
  ],
  \"relationships\": [
${relationships}
  ]
}
")
