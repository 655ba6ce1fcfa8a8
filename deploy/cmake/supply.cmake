# Options for the programs and libraries that others get, which tests do without: protection against faults that are not known yet, and bytes that depend on the source alone.
# docs/security.md, *Supply chain*, has both; tests/deploy/hardening_test.py reads the binaries.
#
# leat_supply(): adds these options to the directory and those that it adds from then on.
option(LEAT_HARDENED "Compile and link with the protections of docs/security.md" ON)
include(CheckPIESupported)
check_pie_supported()  # programs are linked as PIE; CMAKE_POSITION_INDEPENDENT_CODE alone compiles them so

macro(leat_supply)
  if(NOT LEAT_SANITIZE AND NOT LEAT_FUZZ)  # which have stricter checks of their own
    # A folder of the build below the source has a name of its own, which is no part of the bytes.
    add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -ffile-prefix-map=${CMAKE_BINARY_DIR}=build)
    if(LEAT_HARDENED)
      add_compile_options(-fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
      add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
      if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
        add_compile_options(-fcf-protection=full)
        # Without these two the linker leaves out the note that all code is made for CET, since the C
        # library's start files (_start, _init) have none. A system that asks for the note asks all
        # libraries of the process, and has it in these files, too.
        add_link_options(-Wl,-z,ibt -Wl,-z,shstk)
      endif()
    endif()
  endif()
endmacro()
