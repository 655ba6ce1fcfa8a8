#!/usr/bin/env python3
"""Switches guards off, one at a time, and finds those that no test misses.

A guard is `if (CONDITION) return ERROR;`. One instrumented build holds a switch for each guard
(guard.h); a first run of every test case records which guards each case makes fire. Then each
guard of the sample is switched off, and the cases that make it fire run until one of them fails.

  guards.py list                      every guard in scope, with its number
  guards.py build                     the instrumented build, in build/guards
  guards.py probe                     which test cases make which guards fire
  guards.py run [--sample N] [--seed S] [--only REGEX]
                                      the sample (default: all), and a summary; exit status 1 if
                                      less than 95 % of it is found
  guards.py all [options of run]      build, probe, run

Files: build/guards/src (the tree with switches, and its build), probe.json, results.json. Accepted survivors: accepted.txt, beside
this file, with a reason each.
"""
import argparse
import concurrent.futures
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WORK = ROOT / 'build' / 'guards'
OUT = WORK / 'src' / 'build' / 'release'  # as a checkout's: a compiler cache knows the other files
ACCEPTED = Path(__file__).resolve().parent / 'accepted.txt'

# The folders and files whose guards are switched off.
SCOPE = re.compile(
    r'transport/'
    r'|ops/(formats|text|onnx|capnp)/|ops/(validate|check_limits|graph|types|shapes|pieces|dataset'
    r'|resources|queue_resource)\.'
    r'|scheduler/capnp/|scheduler/runtime/verify'
    r'|daemon/(jobs|config|job|checkpoint|chaos)/'
    r'|daemon/(client|master|remote|worker|runner|session|status)/(wire_|views|registry_service'
    r'|client_service|session_service|file_upload|runner_service|runner_config|take_reports'
    r'|fetch_rows|http|signature|graph_version|submitted_job|resumed_job)')

# Functions and macros whose value is an error: the codes of devices/base/status.h, and those that
# files make of them.
ERRORS = {
    'invalid_argument', 'failed_precondition', 'unimplemented', 'resource_exhausted', 'unavailable',
    'deadline_exceeded', 'cancelled', 'internal_error', 'Status', 'error', 'wrong', 'refuse',
    'refused', 'broken', 'expected', 'fail', 'system_error', 'bad_address', 'past', 'bad',
    'bad_component', 'truncated', 'too_short', 'no_way', 'complain', 'says', 'unknown_sizes',
    'library_failed', 'with_subject', 'http_error', 'refuse_upload', 'throwFatalException',
    'unsupported', 'unreadable', 'damaged', 'gone', 'wrong_size', 'mismatch', 'refuse_change',
}


class Guard:
    """One guard: where it is, and the span of its condition in the file's text."""

    def __init__(self, path, line, begin, end, condition, returned):
        self.path, self.line, self.begin, self.end = path, line, begin, end
        self.condition = ' '.join(condition.split())
        self.returned = ' '.join(returned.split())[:90]
        self.number = -1

    def key(self):
        return f'{self.path}: {self.condition}'

    def __str__(self):
        return f'{self.number:4d} {self.path}:{self.line}: if ({self.condition}) return {self.returned}'


def blanked(text):
    """The text with comments, strings and characters blanked, each of the same length."""
    def blank(match):
        return re.sub(r'[^\n]', ' ', match.group(0))
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.S)
    return token.sub(blank, text)


def closing(text, start):
    """The index after the bracket that closes the one at `start`."""
    pairs = {'(': ')', '{': '}'}
    opened, closed, depth = text[start], pairs[text[start]], 0
    for at in range(start, len(text)):
        depth += (text[at] == opened) - (text[at] == closed)
        if depth == 0:
            return at + 1
    raise ValueError('no closing bracket')


def error_of(body):
    """The error expression that `body`, a statement or a block, ends by returning, or None."""
    last = body.rstrip().rstrip(';')
    last = last[max(last.rfind(';'), last.rfind('{'), last.rfind('}')) + 1:] if '[' not in last else last
    match = re.search(r'(?:^|[;{}])\s*(?:return|co_return)?\s*((?:[\w:]+(?:\.|->|::))*(\w+)\s*\(.*)$',
                      last, re.S)
    if match and match.group(2) in ERRORS:
        return match.group(1)
    match = re.search(r'return\s+((?:[\w:]+(?:\.|->|::))*(\w+)\s*\()', body)
    return match.group(1) if match and match.group(2) in ERRORS else None


def guards_of(path, text):
    code = blanked(text)
    for match in re.finditer(r'\bif \(', code):
        begin = match.end() - 1
        end = closing(code, begin)
        after = len(code) - len(code[end:].lstrip())
        if after >= len(code):
            continue
        stop = closing(code, after) - 1 if code[after] == '{' else code.find(';', after)
        body = code[after + (code[after] == '{'):stop]
        starts = re.match(r'\s*(return|co_return|kj::throwFatalException)\b', body)
        if not starts and (code[after] != '{' or re.search(r'\bif\b', body)):
            continue
        returned = error_of(body)
        if returned is None:
            continue
        inner, depth = begin + 1, 0  # an init statement stays outside of the switch
        for at in range(begin + 1, end - 1):
            depth += (code[at] in '({[') - (code[at] in ')}]')
            if code[at] == ';' and depth == 0:
                inner = at + 1
        condition = text[inner:end - 1]
        declares = re.match(r'\s*(const\s+)?[\w:<>]+(\s*[*&]+\s*|\s+)\w+\s*=[^=]', code[inner:end - 1])
        if declares:
            continue
        yield Guard(path, text.count('\n', 0, begin) + 1, inner, end - 1, condition,
                    text[after:stop].lstrip('{').strip().replace('return ', '', 1))


def tracked():
    names = subprocess.run(['git', 'ls-files', '--cached', '--others', '--exclude-standard'],
                           cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in names.stdout.split('\n') if name and (ROOT / name).is_file()]


def all_guards():
    guards = []
    for path in tracked():
        if re.search(r'\.(cc|h)$', path) and SCOPE.match(path):
            guards += guards_of(path, (ROOT / path).read_text())
    for number, guard in enumerate(guards):
        guard.number = number
    return guards


def write_source(guards):
    """Writes the tree with a switch in each guard; leaves files that did not change alone."""
    of_path = {}
    for guard in guards:
        of_path.setdefault(guard.path, []).append(guard)
    source, wanted = WORK / 'src', set()
    for path in tracked():
        data = (ROOT / path).read_bytes()
        if path in of_path:
            text = data.decode()
            for guard in sorted(of_path[path], key=lambda each: -each.begin):
                text = (f'{text[:guard.begin]}::leat_guards::holds({guard.number}, static_cast<bool>('
                        f'{text[guard.begin:guard.end]})){text[guard.end:]}')
            include = '#include "tests/guards/guard.h"\n'
            text = text.replace('#pragma once\n', '#pragma once\n' + include, 1) \
                if path.endswith('.h') else include + text
            data = text.encode()
        target = source / path
        wanted.add(target)
        if not target.is_file() or target.read_bytes() != data:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            shutil.copymode(ROOT / path, target)
    for old in source.rglob('*'):
        if old.is_file() and old not in wanted and source / 'build' not in old.parents:
            old.unlink()


def build(guards, jobs, suites):
    write_source(guards)
    configure = ['cmake', '--preset', 'release', '-DLEAT_TESTS=ON', '-DLEAT_BENCHMARKS=OFF']
    launcher = shutil.which('ccache')
    if launcher:
        configure.append(f'-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}')
    subprocess.run(configure, cwd=WORK / 'src', check=True, stdout=subprocess.DEVNULL)
    targets = [word for suite in suites for word in ('--target', suite)]
    subprocess.run(['nice', 'cmake', '--build', OUT, '--parallel', str(jobs), *targets], check=True)


def cases(suites):
    """Every Catch2 test case of the suites as (binary, name)."""
    for binary in sorted((OUT / 'bin').glob('*_tests')):
        if suites and binary.name not in suites:
            continue
        listed = subprocess.run([binary, '--list-test-names-only'], capture_output=True, text=True)
        for name in listed.stdout.splitlines():
            if name.strip():
                yield binary.name, name.strip()


def run_case(case, environment, limit):
    """Runs a case in a folder of its own: (passed, seconds)."""
    binary, name = case
    escaped = re.sub(r'([\\,\[\]*])', r'\\\1', name)
    if escaped.startswith('-'):
        escaped = '*' + escaped[1:]  # it is no option
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix='leat-guard-') as folder:
        process = subprocess.Popen(
            [OUT / 'bin' / binary, escaped], cwd=folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, 'TMPDIR': folder, **environment})
        try:
            passed = process.wait(limit) == 0
        except subprocess.TimeoutExpired:
            passed = False
        try:
            os.killpg(process.pid, signal.SIGKILL)  # what a case whose guard is off leaves behind
        except ProcessLookupError:
            pass
        process.wait()
    return passed, time.monotonic() - begun


def probe(guards, jobs, suites):
    """Which guards each case makes fire. A case that fails without a switch is left out."""
    def one(case):
        with tempfile.NamedTemporaryFile() as log:
            log.truncate(len(guards))
            for _ in range(2):
                passed, seconds = run_case(case, {'LEAT_GUARD_LOG': log.name}, 300)
                if passed:
                    break
            fired = [at for at, byte in enumerate(Path(log.name).read_bytes()) if byte]
        return {'case': case, 'passed': passed, 'seconds': round(seconds, 3), 'fired': fired}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        rows = list(pool.map(one, list(cases(suites))))
    failed = [row['case'] for row in rows if not row['passed']]
    (WORK / 'probe.json').write_text(json.dumps({'guards': [guard.key() for guard in guards],
                                                 'rows': rows}))
    print(f'probe: {len(rows)} cases, {len(failed)} of them fail with every guard on')
    for case in failed:
        print('  fails:', *case)


def accepted():
    """key → reason."""
    reasons = {}
    if ACCEPTED.is_file():
        for line in ACCEPTED.read_text().splitlines():
            if line and not line.startswith('#'):
                key, _, reason = line.partition(' -- ')
                reasons[key.strip()] = reason.strip()
    return reasons


def try_guard(guard, rows, budget):
    """('found', case) | ('unnoticed', n cases) | ('never fires', None)."""
    firing = sorted((row for row in rows if guard.number in row['fired'] and row['passed']),
                    key=lambda row: row['seconds'])
    begun = time.monotonic()
    for tried, row in enumerate(firing):
        switched = {'LEAT_GUARD_OFF': str(guard.number)}
        limit = 20 + 5 * row['seconds']
        # A case that fails twice: a busy machine fails one now and then by itself.
        if all(not run_case(row['case'], switched, limit)[0] for _ in range(2)):
            return 'found', row['case'][1]
        if time.monotonic() - begun > budget:
            return 'unnoticed', f'{tried + 1} of {len(firing)} cases within {budget} s'
    return ('unnoticed', f'{len(firing)} cases') if firing else ('never fires', '')


def run(guards, options):
    state = json.loads((WORK / 'probe.json').read_text())
    if state['guards'] != [guard.key() for guard in guards]:
        sys.exit('guards: the source has changed since the probe: run build and probe again')
    drawn = [guard for guard in guards if re.search(options.only, guard.path)]
    seed = options.seed if options.seed is not None else random.randrange(10 ** 6)
    if options.sample and options.sample < len(drawn):
        drawn = sorted(random.Random(seed).sample(drawn, options.sample), key=lambda g: g.number)
    print(f'guards: {len(drawn)} of {len(guards)}, seed {seed}', flush=True)
    reasons, counts, results = accepted(), {}, []

    def one(guard):
        return guard, *try_guard(guard, state['rows'], options.budget)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for guard, verdict, detail in pool.map(one, drawn):
            reason = reasons.get(guard.key())
            if verdict != 'found' and reason:
                verdict, detail = 'accepted', reason
            counts[verdict] = counts.get(verdict, 0) + 1
            results.append({'guard': guard.key(), 'line': guard.line, 'verdict': verdict,
                            'detail': detail})
            if verdict != 'found':
                print(f'{verdict}: {guard} [{detail}]', flush=True)
    (WORK / 'results.json').write_text(json.dumps(results, indent=1))
    found, total = counts.get('found', 0), len(drawn)
    print(f'guards: {found} of {total} found ({100 * found / max(total, 1):.1f} %); '
          + ', '.join(f'{count} {verdict}' for verdict, count in sorted(counts.items())))
    return 0 if found + counts.get('accepted', 0) == total or found >= 0.95 * total else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('command', choices=['list', 'build', 'probe', 'run', 'all'])
    parser.add_argument('--sample', type=int, help='draw this many guards instead of all')
    parser.add_argument('--seed', type=int, help='of the draw; printed')
    parser.add_argument('--only', default='', help='guards of files that match this pattern alone')
    parser.add_argument('--suites', nargs='*', default=[], metavar='NAME',
                        help='build and run these test programs alone, such as transport_tests')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--budget', type=float, default=120, help='seconds for one guard')
    options = parser.parse_args()
    guards = all_guards()
    WORK.mkdir(parents=True, exist_ok=True)
    if options.command == 'list':
        for guard in guards:
            print(guard)
    if options.command in ('build', 'all'):
        build(guards, options.jobs, options.suites)
    if options.command in ('probe', 'all'):
        probe(guards, options.jobs, options.suites)
    if options.command in ('run', 'all'):
        sys.exit(run(guards, options))


if __name__ == '__main__':
    main()
