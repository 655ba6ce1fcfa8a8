#!/usr/bin/env python3
"""Checks the protections of the programs and libraries of a build, as docs/security.md lists them, with
binutils' readelf:

    hardening_test.py BUILD [--without TEXT...]
                                bin/leat, bin/leatd and lib/libleat_*.so of the build; exit status 1 with a
                                line for each finding. --without: no file may have this text, a path of
                                the machine that built it
    hardening_test.py --self-test [COMPILER]
                                checks that each protection is missed in a library without it
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

# Programs and libraries find ours beside them, wherever they lie.
RUN_PATH = re.compile(r"^\$ORIGIN(/\.\./lib[^:]*)?(:\$ORIGIN(/\.\./lib[^:]*)?)*$")
# Libraries that call no function that _FORTIFY_SOURCE could check.
NOTHING_TO_FORTIFY = ("libleat_graph_file.", "libleat_onnx.", "libleat_plan_file.")
FLAGS = ("-O2", "-fPIC", "-shared", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3",
         "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack")
CET_FLAGS = ("-fcf-protection=full", "-Wl,-z,ibt", "-Wl,-z,shstk")
PLANTED = r"""
#include <cstring>
#include <unistd.h>
extern "C" int planted(int fd, const char* from, unsigned long size) {
  char text[64];
  memcpy(text, from, size);
  return read(fd, text, size) > 0 && strlen(text) > 3;
}
"""


def read_elf(path, *options):
    done = subprocess.run(["readelf", "-W", *options, path], capture_output=True, text=True, errors="replace")
    if done.returncode != 0 or not done.stdout.strip():
        raise SystemExit(f"hardening_test: readelf {path}: {done.stderr.strip() or 'no output'}")
    return done.stdout


def findings(path, is_program, without=()):
    """What one file lacks, as texts."""
    header, segments = read_elf(path, "-h"), read_elf(path, "-l")
    dynamic, symbols = read_elf(path, "-d"), read_elf(path, "--dyn-syms")
    name = os.path.basename(path)
    found = []

    def expect(holds, text):
        if not holds:
            found.append(f"{path}: expected {text}")

    expect(re.search(r"^\s*Type:\s+DYN", header, re.M), "position-independent code (type DYN)")
    flags = " ".join(re.findall(r"\((?:FLAGS|FLAGS_1)\)\s*(.*)", dynamic))
    expect(re.search(r"\bBIND_NOW\b|\bNOW\b", flags), "symbols that are bound at the start (-z now)")
    if is_program:
        expect(re.search(r"\bPIE\b", flags), "a position-independent program (-pie)")
    expect("GNU_RELRO" in segments, "tables that become read-only (-z relro, GNU_RELRO)")
    stack = re.search(r"GNU_STACK(?:\s+0x[0-9a-f]+){5}\s+([RWE ]+?)\s+0x", segments)
    expect(stack and "E" not in stack.group(1), "a stack that is not executable (GNU_STACK RW)")
    loads = re.findall(r"LOAD(?:\s+0x[0-9a-f]+){5}\s+([RWE ]+?)\s+0x", segments)
    expect(loads and not any("W" in load and "E" in load for load in loads), "no segment both writable and executable")
    expect("(TEXTREL)" not in dynamic, "no relocation of code (TEXTREL)")
    if "X86-64" in header:
        features = re.search(r"x86 feature:\s*(.*)", read_elf(path, "-n"))
        features = features.group(1) if features else "none"
        for feature in ("IBT", "SHSTK"):
            expect(feature in features, f"CET's {feature} (-fcf-protection=full), received {features}")
    for run_path in re.findall(r"\(R(?:UN)?PATH\)[^\[]*\[(.*)\]", dynamic):
        expect(RUN_PATH.match(run_path), f"a run path relative to $ORIGIN, received {run_path}")
    # A program is one call of a library.
    if not is_program:
        undefined = re.findall(r"UND (\S+)", symbols)
        undefined = {symbol.split("@")[0] for symbol in undefined}
        expect("__stack_chk_fail" in undefined, "stack protectors (-fstack-protector-strong)")
        is_fortified = any(re.match(r"__\w+_chk$", symbol) for symbol in undefined)
        if not name.startswith(NOTHING_TO_FORTIFY):
            expect(is_fortified, "calls that check sizes (-D_FORTIFY_SOURCE=3)")
    with open(path, "rb") as file:
        content = file.read()
    for text in without:
        at = content.find(text.encode())
        if at >= 0:
            received = content[at:at + 120].split(b"\0")[0].decode(errors="replace")
            expect(False, f"no path of the machine that built it, received {received}")
    return found


def check_build(build, without):
    programs = [os.path.join(build, "bin", name) for name in ("leat", "leatd")]
    libraries = sorted(path for path in glob.glob(os.path.join(build, "lib", "libleat_*.so.*"))
                       if not os.path.islink(path))
    if len(libraries) < 5:
        raise SystemExit(f"hardening_test: expected the libraries in {build}/lib, received {len(libraries)}")
    found = []
    for path in programs + libraries:
        found += findings(path, path in programs, without)
    print("\n".join(found) if found else f"{len(programs) + len(libraries)} files have all protections")
    return 1 if found else 0


def self_test(compiler):
    """Builds a library with all flags, which passes, and one without each of them, which does not."""
    is_x86 = "x86_64" in subprocess.run([compiler, "-dumpmachine"], capture_output=True, text=True).stdout
    flags = FLAGS + (CET_FLAGS if is_x86 else ())
    wrong = [(("-Wl,-z,now",), ("-Wl,-z,lazy",), "bound at the start"),
             (("-Wl,-z,relro",), ("-Wl,-z,norelro",), "become read-only"),
             (("-Wl,-z,noexecstack",), ("-Wl,-z,execstack",), "not executable"),
             (("-fstack-protector-strong",), ("-fno-stack-protector",), "stack protectors"),
             (("-D_FORTIFY_SOURCE=3",), (), "calls that check sizes"),
             ((), ("-Wl,-rpath,/home/me/lib",), "relative to $ORIGIN, received /home/me/lib"),
             ((), ("-Wl,-rpath,$ORIGIN:",), "relative to $ORIGIN, received $ORIGIN:"),
             ((), ("-DWHERE=\"/home/me/leat\"", "-include", "where.h"), "received /home/me/leat")]
    if is_x86:
        wrong += [(CET_FLAGS, ("-fcf-protection=none",), "CET's IBT"),
                  (("-Wl,-z,shstk",), (), "CET's SHSTK")]
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "planted.cc"), "w") as file:
            file.write(PLANTED)
        with open(os.path.join(folder, "where.h"), "w") as file:
            file.write('extern "C" const char* where() { return WHERE; }\n')

        def build(options, name="libleat_planted.so.1"):
            path = os.path.join(folder, name)
            subprocess.run([compiler, *options, "planted.cc", "-o", path], cwd=folder, check=True)
            return path

        good = findings(build(flags), False, ("/home/me",))
        if good:
            failed.append(f"expected no finding with all flags, received {good}")
        for gone, instead, text in wrong:
            options = [flag for flag in flags if flag not in gone] + list(instead)
            found = findings(build(options), False, ("/home/me/leat",))
            if not any(text in each for each in found):
                failed.append(f"without {gone} with {instead}: expected a finding of '{text}', received {found}")
        with open(os.path.join(folder, "planted.cc"), "a") as file:
            file.write("int main(int n, char** texts) { return planted(0, texts[0], n); }\n")
        program = [flag for flag in flags if flag not in ("-shared", "-fPIC")]
        if findings(build(program + ["-fPIE", "-pie"], "good"), True):
            failed.append("expected no finding in a program with -pie")
        if not any("(-pie)" in each for each in findings(build(program + ["-no-pie"], "bad"), True)):
            failed.append("expected a finding in a program with -no-pie")
    print("\n".join(failed) if failed else f"{len(wrong) + 1} planted faults were found")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--self-test":
        sys.exit(self_test(sys.argv[2] if len(sys.argv) > 2 else "c++"))
    if len(sys.argv) < 2 or (len(sys.argv) > 2 and sys.argv[2] != "--without"):
        raise SystemExit(__doc__)
    sys.exit(check_build(sys.argv[1], sys.argv[3:]))
