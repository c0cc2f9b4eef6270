#!/bin/sh
# Lays out NVIDIA's CUDA 12.2 wheels as a toolkit that CMake and clang compile Horovod's kernels with.
# Usage: setup/cuda.sh ENVIRONMENT_FOLDER TOOLS_FOLDER TOOLKIT_FOLDER
#
# ENVIRONMENT_FOLDER contains the packages of requirements/training-gpu.txt, TOOLS_FOLDER those of requirements/cuda-tools.txt
# (pip install --target).
#
# The wheels hold headers, libraries, libdevice and ptxas, but neither nvcc nor a static runtime. clang compiles CUDA with what
# is there (LLVM's "Compiling CUDA with clang"), so nothing but wheels and Debian is needed, and what ptxas 12.2 makes
# runs with the drivers that TensorFlow 2.15 asks for. nvcc 13's would ask for newer ones.
set -eu
environment=$1 tools=$2/nvidia toolkit=$3
wheels=$("$environment/bin/python" -c 'import nvidia; print(nvidia.__path__[0])')
clang=${CLANG:-clang++-19}

mkdir -p "$toolkit/bin" "$toolkit/include" "$toolkit/lib64"
for folder in "$wheels"/*/include "$tools"/cuda_cccl/include; do cp -rsf "$folder"/. "$toolkit/include/"; done
for library in "$wheels"/cuda_runtime/lib/lib*.so.* "$wheels"/nccl/lib/lib*.so.*; do
    name=$(basename "$library")
    ln -sf "$library" "$toolkit/lib64/$name"
    ln -sf "$library" "$toolkit/lib64/${name%%.so.*}.so"
done
# Horovod's CMake file links the static runtime; for the linker this names the shared one, and TensorFlow's own entry points to
# that come first.
echo 'INPUT(libcudart.so)' >"$toolkit/lib64/libcudart_static.a"
echo '!<arch>' >"$toolkit/lib64/libcudadevrt.a" # CMake links it always; it is of use to kernels that start kernels
ln -sfn "$wheels/cuda_nvcc/nvvm" "$toolkit/nvvm"
ln -sf "$wheels/cuda_nvcc/bin/ptxas" "$toolkit/bin/ptxas"
chmod +x "$wheels/cuda_nvcc/bin/ptxas" "$tools/cu13/bin/fatbinary"

# Uncompressed: drivers of CUDA 12 do not know CUDA 13's compression. clang 19 names images as CUDA 12's fatbinary wants them.
cat >"$toolkit/bin/fatbinary" <<END
#!/bin/bash
options=()
for option in "\$@"; do
    option=\${option/#--image=profile=sm_/--image3=kind=elf,sm=}
    options+=("\${option/#--image=profile=compute_/--image3=kind=ptx,sm=}")
done
exec "$tools/cu13/bin/fatbinary" --compress=false "\${options[@]}"
END
# CMake and Horovod ask nvcc where the toolkit lies and which version it is; neither compiles with it.
cat >"$toolkit/bin/nvcc" <<END
#!/bin/sh
case "\$*" in
*--help*) ;;
*__cmake_determine_cuda*) printf '#$ TOP=%s\n' "$toolkit" >&2 ;;
*) echo "Cuda compilation tools, release 12.2, V12.2.140" ;;
esac
END
# Horovod adds options of nvcc's to CMake's for clang, which say the same.
cat >"$toolkit/bin/clang-cuda" <<END
#!/bin/bash
options=()
while [ \$# -gt 0 ]; do
    case "\$1" in
    -gencode) shift ;;
    -Xcompiler) ;;
    *) options+=("\$1") ;;
    esac
    shift
done
exec $clang --cuda-path="$toolkit" "\${options[@]}"
END
chmod +x "$toolkit"/bin/fatbinary "$toolkit"/bin/nvcc "$toolkit"/bin/clang-cuda
