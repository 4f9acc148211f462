"""Install to a folder of its own, then build and run the examples against it, as a user would."""
import glob
import os
import shutil
import subprocess
import sys

root, build = sys.argv[1], sys.argv[2]
prefix = os.path.join(build, "installed")
shutil.rmtree(prefix, ignore_errors=True)
subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)

pkg = glob.glob(os.path.join(prefix, "lib*", "**", "fast.pc"), recursive=True)
assert pkg, "no fast.pc was installed"
libdir = os.path.dirname(os.path.dirname(pkg[0]))
text = open(pkg[0]).read()
flags = ["-I" + os.path.join(prefix, "include"), "-L" + libdir, "-Wl,-rpath," + libdir, "-lfast", "-lm"]
if shutil.which("pkg-config"):
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(pkg[0]))
    out = subprocess.run(["pkg-config", "--cflags", "--libs", "fast"],
                         capture_output=True, text=True, check=True, env=env).stdout.split()
    assert "-lfast" in out, out
    assert os.path.samefile(next(flag[2:] for flag in out if flag.startswith("-L")), libdir), out
    flags = out + ["-Wl,-rpath," + libdir, "-lm"]

examples = sorted(glob.glob(os.path.join(root, "examples", "[0-9][0-9]_*.c")))
assert len(examples) >= 3
for source in examples:
    lines = open(source).read().count("\n")
    assert lines < 100, f"{source} has {lines} lines, 100 are too many"
    program = os.path.join(prefix, os.path.basename(source)[:-2])
    subprocess.run(["cc", "-std=c17", "-O2", "-Wall", "-Wextra", "-Werror", source, "-o", program, *flags],
                   check=True)
    result = subprocess.run([program], capture_output=True, text=True, timeout=250, cwd=root)
    if result.returncode or not result.stdout.strip():
        sys.exit(f"{source} exits {result.returncode}:\n{result.stdout}{result.stderr}")
    print(result.stdout)

# One short program, unchanged, on every transport of the build: it ends with the same line.
with open(os.path.join(root, "examples", "04_space.c")) as file:
    assert file.read().count("\n") < 60
program = os.path.join(prefix, "04_space")
commands = [[program, "threads"], [program, "sim"]]
alone = subprocess.run([program, "mpi"], capture_output=True, text=True, timeout=250)
assert alone.returncode == 0 or "in this build" in alone.stderr, alone.stderr
if alone.returncode == 0 and shutil.which("mpirun"):
    commands.append(["mpirun", "-np", "2", program, "mpi"])
env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
           OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_btl_vader_single_copy_mechanism="none")
ends = [subprocess.run(command, capture_output=True, text=True, timeout=250, env=env, check=True)
        .stdout.splitlines()[-1] for command in commands]
assert len(set(ends)) == 1, ends

# And with CMake's find_package.
consumer = os.path.join(prefix, "consumer")
os.makedirs(consumer)
open(os.path.join(consumer, "CMakeLists.txt"), "w").write(
    "cmake_minimum_required(VERSION 3.20)\nproject(consumer C)\nfind_package(fast REQUIRED)\n"
    f"add_executable(consumer {examples[0]})\ntarget_link_libraries(consumer fast::fast m)\n")
subprocess.run(["cmake", "-S", consumer, "-B", os.path.join(consumer, "build"), f"-DCMAKE_PREFIX_PATH={prefix}"],
               check=True, stdout=subprocess.DEVNULL)
subprocess.run(["cmake", "--build", os.path.join(consumer, "build")], check=True, stdout=subprocess.DEVNULL)
