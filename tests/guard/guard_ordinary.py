"""Ordinary commands of a developer on a GPU host: build, test, git, docker, Python, text tools, with dangerous words in data.

They run in a project below the run's folder, with a virtual environment of its own (see `test_guard_ordinary.py`).
"""

from __future__ import annotations

SHELL = r"""
ls
ls -la
ls -lah --color=auto src
ls -1 | wc -l
pwd
cd src && ls
cd .. ; pwd
mkdir -p build/out
mkdir results && cd results
touch notes.md
cat README.md
cat README.md | head -50
head -n 20 setup.py
tail -n 100 run.log
tail -f run.log
less README.md
wc -l src/*.py
file build/a.out
stat README.md
du -sh .
du -sh * | sort -h
df -h
free -g
uptime
nproc
lscpu | grep -i model
uname -a
hostname
whoami
id
date
date +%s
date -u +%Y-%m-%dT%H:%M:%SZ
which python
type -a python3
command -v nvcc
echo hello
echo "done: $?"
echo $PATH
echo "$PWD"
echo $HOME
printf '%s\n' one two
printf "%d\n" 42
true
false || true
test -f README.md && echo yes
[ -d build ] || mkdir build
[[ -n "$HF_TOKEN" ]] && echo "token is set"
test -n "$HF_TOKEN"
[ -z "${OPENAI_API_KEY}" ] && echo missing
echo ${HF_TOKEN:+set}
sleep 5
sleep 1 && echo go
time ls
time python bench.py
seq 1 10
for i in 1 2 3; do echo $i; done
for f in *.py; do echo "$f"; done
for f in src/*.py; do wc -l "$f"; done
while read -r line; do echo "$line"; done < list.txt
if [ -f x ]; then echo x; else echo y; fi
case "$1" in a) echo a;; *) echo other;; esac
x=1; y=2; echo $((x + y))
export CUDA_HOME=/usr/local/cuda
export PYTHONPATH=src:$PYTHONPATH
unset PYTHONPATH
source venv/bin/activate
. venv/bin/activate && python -V
alias ll='ls -la'
set -e; echo ok
set -euo pipefail; make test
set -x; ls
ulimit -n
history | tail
jobs
wait
umask
tree -L 2
tree src -I __pycache__
realpath .
basename "$PWD"
dirname /a/b/c
env | grep -c PATH > /dev/null; true
printenv PATH
printenv HOME CUDA_HOME
xargs -n1 echo < list.txt
yes | head -3
cut -d, -f1 data.csv
paste a.txt b.txt
comm -12 a.txt b.txt
diff a.txt b.txt
diff -u old.py new.py | head
cmp a.bin b.bin
md5sum file.bin
sha256sum build/*.whl
sort -u names.txt
sort -k2 -n data.txt | uniq -c
column -t data.txt
tr a-z A-Z < names.txt
rev names.txt
nl -ba src/main.py
fold -w 80 README.md
jq . result.json
jq -r '.tables | keys[]' report.json
yq .name config.yaml
xxd build/a.out | head
od -c file | head
strings build/a.out | grep version
base64 file.bin | head -1
""".strip("\n")

OWN_FILES = r"""
rm build/a.out
rm -f run.log
rm -rf build
rm -rf build/ dist/ *.egg-info
rm -rf __pycache__ .pytest_cache
rm -rf ./results/tmp
rm -r node_modules
rm -f *.pyc
rm -rf "$PWD/build"
rmdir empty
find . -name '*.pyc' -delete
find . -name __pycache__ -type d -exec rm -rf {} +
find build -type f -mtime +7 -exec rm {} \;
find . -name '*.tmp' -print0 | xargs -0 rm -f
find . -name '*.py' | xargs grep -n TODO
find . -type f -name '*.cu' -exec grep -l kill {} +
find / -name libcudart.so 2>/dev/null
find /usr/local -maxdepth 2 -name 'cuda*'
mv a.txt b.txt
mv build/out.json results/
cp a.txt b.txt
cp -r src src.bak
cp /etc/hosts .
cp ~/.bashrc backup.bashrc
ln -s src/main.py main
ln -sf ../data data
chmod +x run.sh
chmod -R u+w build
chmod 644 README.md
touch build/.stamp
truncate -s 0 run.log
dd if=/dev/zero of=scratch.bin bs=1M count=10
tee out.log < in.txt
make_dir=build; rm -rf $make_dir
d=$(mktemp -d); cp a.txt "$d"; rm -rf "$d"
t=$(mktemp) && echo x > "$t" && rm "$t"
T=$(mktemp -d) && cd "$T" && git init -q && rm -rf .git
tar czf results.tar.gz results
tar xzf data.tar.gz -C build
tar tf data.tar.gz
unzip -q data.zip -d build
gzip -k results.json
gunzip -c trace.json.gz | head -c 100
zcat trace.json.gz | head
zip -r out.zip results
split -l 1000 big.txt part_
sed -i 's/foo/bar/' src/main.py
sed -i.bak -e 's/a/b/' -e 's/c/d/' config.yaml
sed -n 1,20p README.md
sed 's/kill/stop/g' notes.txt
perl -pi -e 's/foo/bar/' src/main.py
perl -ne 'print if /error/' run.log
awk '{print $1}' data.txt
awk -F, 'NR>1 {s+=$2} END {print s}' data.csv
awk '/kill/ {print NR": "$0}' run.log
echo text > file.txt
echo more >> file.txt
echo "x" > build/x && cat build/x
cat > script.py <<'EOF'
import os
print(os.getcwd())
EOF
python bench.py > bench.log 2>&1
python bench.py 2>&1 | tee bench.log
python bench.py > /tmp/infer-forge-ordinary-bench.log 2>&1 &
ls nosuch 2> /dev/null || echo none
ls > /dev/null
rsync -a src/ backup/
rsync -a --delete src/ backup/src/
install -m 755 run.sh build/run.sh
patch -p1 < fix.patch
sponge out.txt < in.txt
curl -s https://example.com -o page.html
wget -q https://example.com/data.txt -O data.txt
""".strip("\n")

DATA_WORDS = r"""
grep -rn 'rm -rf' scripts/
grep -n "kill -9" *.sh
grep -rn 'pkill -f' .
grep -E 'shutdown|reboot' notes.txt
grep -c 'docker system prune' README.md
rg 'git push --force' docs
rg -n 'nvidia-smi -r' -g '*.md'
rg "os\.kill|shutil\.rmtree" src
git grep 'rm -rf /'
git log --grep='git reset --hard'
git commit -m 'remove pkill -9 from scripts'
git commit -m "fix: rm -rf / in cleanup is refused"
git commit -am 'docs: never run docker system prune'
git commit -m 'guard: nvidia-smi --gpu-reset is denied' -m 'kill 1 too'
git commit -F - <<'EOF'
Do not kill foreign processes

The old script ran `pkill -9 -f sglang` and rm -rf /data/models.
EOF
echo 'rm -rf /' >> notes.md
echo "pkill -f python" > example.txt
echo 'kill -9 $(pgrep python)'
printf 'sudo reboot\n' >> notes.md
cat <<'EOF' > cleanup.md
rm -rf /data/models
kill -9 1
EOF
cat > doc.md <<EOF
nvidia-smi -pl 300 must not be run.
EOF
cat >> notes.txt <<'EOF'
git push --force origin main
EOF
tee notes.txt <<'EOF'
shutdown -h now
EOF
python -c "print('rm -rf /')"
python3 -c 'print("kill -9 -1")'
python3 -c "x = 'shutil.rmtree(\"/data\")'; print(x)"
python3 - <<'EOF'
text = "os.system('reboot')"
print(text)
EOF
jq '.kill' data.json
jq -n '{"cmd": "rm -rf /"}'
sed 's/rm -rf/echo/' script.txt
awk '{gsub(/pkill/, "stop"); print}' notes.txt
gh issue list --search 'kill rm -rf'
gh pr view 12 --comments
man kill
man rm
info dd
tldr shutdown
which pkill killall
type kill
command -v rm
ls /bin/rm /bin/kill
help kill
kill -l
kill -l 9
kill -0 4242
pgrep -f sglang
pgrep -a python
pidof python3
ps aux | grep python
ps -ef | grep -v grep | grep sglang
ps -o pid,ppid,cmd -p 4242
ps -eo pid,etime,cmd --sort=-etime | head
top -b -n 1 | head -20
lsof -i :30000
ss -ltnp
netstat -tlnp
fuser 30000/tcp
fuser -v /dev/nvidia0
journalctl -u docker --since today | tail
dmesg | tail -50
dmesg -T | grep -i xid
test "$x" = "rm -rf /" && echo equal
[ "$cmd" != "kill" ] && echo fine
: "rm -rf /"
# rm -rf /
ls # kill -9 1
var="rm -rf /"; echo "$var"
msg='pkill everything'; git commit -m "$msg"
find . -name 'kill*.py'
find . -path ./rm -prune -o -name '*.py' -print
ls kill.py rm.txt reboot.md
python kill.py --help
python tools/rm_cache.py --dry-run
bat docs/kill.md
less docs/shutdown.md
diff <(sort a.txt) <(sort b.txt)
comm <(ls a) <(ls b)
wc -w <<< "rm -rf /"
read -r answer <<< "reboot"
logger "about to reboot"
notify-send 'kill'
write_note() { echo "rm -rf $1"; }; write_note x
git stash push -m 'before rm -rf build'
git tag -l 'kill*'
git branch --list 'rm-*'
git log --oneline -- kill.py
git show HEAD:rm.py
git blame -L 1,20 kill.py
""".strip("\n")

GIT = r"""
git status
git status -sb
git diff
git diff --stat
git diff HEAD~1 -- src
git diff --cached
git log --oneline -20
git log --graph --all --decorate --oneline
git log -p -1
git log --since='2 weeks ago' --author=ann
git show
git show HEAD~2 --stat
git blame src/main.py
git branch
git branch -a
git branch -vv
git branch feature/x
git branch -d merged
git checkout -b run-abc/try
git checkout main
git checkout run-abc/fix
git switch run-abc/fix
git switch -c run-abc/new
git fetch
git fetch origin
git fetch --all --prune
git fetch origin pull/12/head:pr-12
git pull
git pull --ff-only
git pull --rebase
git merge --no-ff run-abc/try
git merge --abort
git rebase main
git rebase -i HEAD~3
git rebase --continue
git rebase --abort
git cherry-pick abc1234
git revert HEAD
git add src/main.py
git add -A
git add -p
git add .
git commit -m 'speed up prefill'
git commit --amend --no-edit
git commit -a -m x
git commit --fixup HEAD
git stash
git stash list
git stash push -m wip
git stash pop
git stash apply
git stash show -p
git reset HEAD~1
git reset --soft HEAD~1
git reset src/main.py
git restore --staged src/main.py
git rm --cached old.py
git mv a.py b.py
git tag
git tag v0.1
git tag -a v0.2 -m 'second'
git remote -v
git remote show origin
git remote get-url origin
git config --list
git config user.name
git config --get remote.origin.url
git config user.email ann@example.com
git rev-parse HEAD
git rev-parse --short HEAD
git rev-parse --show-toplevel
git rev-list --count HEAD
git describe --tags
git ls-files
git ls-files --others --exclude-standard
git ls-remote origin
git ls-tree -r HEAD --name-only
git cat-file -p HEAD
git grep TODO
git bisect start
git bisect good
git bisect reset
git bisect run python -m pytest -q
git worktree list
git worktree add ../wt run-abc/wt
git worktree remove ../wt
git submodule update --init --recursive
git submodule status
git clone https://github.com/sgl-project/sglang.git
git clone --depth 1 git@github.com:vllm-project/vllm.git build/vllm
git init
git init -q .
git apply fix.patch
git format-patch -1
git am < fix.patch
git clean -n
git clean -nd
git reflog
git gc
git fsck
git shortlog -sn
git archive --format=tar HEAD | tar x -C build
git push origin run-abc/fix
git push -u origin run-abc/fix
git push origin HEAD:run-abc/fix
git push --dry-run origin main
git -C . status
git -c color.ui=always diff
git --no-pager log -5
git --version
git help push
git notes show
git symbolic-ref HEAD
git sparse-checkout list
git check-ignore -v build
git diff-tree --no-commit-id -r HEAD
git merge-base main HEAD
git name-rev HEAD
git count-objects -v
gh pr list
gh pr view 123
gh pr diff 123
gh pr checks
gh pr status
gh issue view 5
gh issue list
gh repo view
gh run list
gh run view 1 --log
gh api repos/sgl-project/sglang/pulls/1
gh auth status
gh search prs 'fused moe'
gh release list
""".strip("\n")

PYTHON = r"""
python -V
python --version
python bench.py
python3 src/main.py --tp 4
python -m pytest
python -m pytest -q tests/test_a.py -k 'not slow'
pytest -x
pytest -q --maxfail=1 tests
pytest -n 4 tests --durations=10
python -m pytest --cov=src
python -c 'print(1)'
python -c "import torch; print(torch.__version__, torch.cuda.is_available())"
python -c "import sglang; print(sglang.__file__)"
python3 -c "import json; print(json.load(open('result.json'))['x'])"
python3 -c "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))"
python3 -c "import os; print(os.getpid())"
python3 -c "import subprocess; print(subprocess.run(['ls', '-l'], capture_output=True))"
python3 -c "open('out.txt', 'w').write('x')"
python3 -c "from pathlib import Path; print(list(Path('.').glob('*.py')))"
python3 -c "import shutil; shutil.copy('a', 'b')"
python3 -c "import shutil; shutil.rmtree('build')"
python3 -c "import os; os.remove('run.log')"
python3 -c "from pathlib import Path; Path('build/x').unlink()"
python - <<'EOF'
import json
with open('report.json') as f:
    data = json.load(f)
print(len(data))
EOF
python3 <<'EOF'
import pandas as pd
df = pd.read_csv('data.csv')
df.to_csv('out.csv')
EOF
python -m json.tool result.json
python -m http.server 8000
python -m venv venv
python -m venv .venv && .venv/bin/pip install -e .
python -m pip list
python -m pip show torch
python -m build
python -m compileall src
python -m cProfile -o prof.out bench.py
python -m timeit 'sum(range(100))'
python -m this
python -m sglang.launch_server --model-path /data/models/llama --tp 4 --port 30000
python -m sglang.bench_serving --backend sglang --num-prompts 100 --port 30000
python -m sglang.bench_one_batch --model-path meta-llama/Llama-3.1-8B --batch 1
python3 -m vllm.entrypoints.openai.api_server --model /data/models/llama
vllm serve /data/models/llama --tensor-parallel-size 4
vllm bench serve --model llama --num-prompts 100
trtllm-serve /data/models/llama --tp_size 4
sglang serve --model-path /data/models/llama
torchrun --nproc-per-node 4 bench.py
accelerate launch bench.py
CUDA_VISIBLE_DEVICES=0 python bench.py
CUDA_VISIBLE_DEVICES=0,1,2,3 python -m sglang.launch_server --tp 4
CUDA_VISIBLE_DEVICES= python cpu.py
HF_TOKEN="$HF_TOKEN" python dl.py
HF_HOME=/data/runs/run-abc/hf python dl.py
TRITON_CACHE_DIR=build/triton python bench.py
PYTHONPATH=src python -m pkg.tool
OMP_NUM_THREADS=1 python bench.py
pip list
pip show torch
pip freeze > requirements.lock
pip check
pip --version
pip download torch --no-deps -d build
pip config list
venv/bin/pip install -e .
venv/bin/pip install -r requirements.txt
venv/bin/pip install --upgrade torch==2.9.0
venv/bin/pip uninstall -y flashinfer
venv/bin/python -m pip install numpy
source venv/bin/activate && pip install -e '.[dev]'
. venv/bin/activate; pip install pytest
pip install --target build/site numpy
uv venv
uv pip install -e .
uv pip install torch --index-url https://download.pytorch.org/whl/cu128
uv sync
uv add httpx
uv run pytest -q
uv run python bench.py
uv run --with httpx python x.py
uv lock
uv build
poetry install
poetry run pytest
poetry add httpx
hatch run test
tox -e py311
nox -s tests
ruff check .
ruff check --fix src
ruff format src
black src
isort src
mypy src
pyright
flake8 src
pylint src
pre-commit run --all-files
pre-commit install
coverage run -m pytest
coverage report
ipython -c 'print(1)'
jupyter nbconvert --to script nb.ipynb
py-spy record -o prof.svg -- python bench.py
py-spy top --pid 4242
py-spy dump --pid 4242
conda env list
conda list
conda info
conda activate run
conda create -n run-abc python=3.11
conda run -n run-abc python bench.py
""".strip("\n")

BUILD = r"""
make
make test
make -j8
make -j 8 all
make clean
make build lint
make -C sub test
make -n install
make V=1 build
cmake -S . -B build -G Ninja
cmake --build build -j
cmake --install build --prefix build/install
ctest --test-dir build
ninja -C build
ninja -C build -t clean
nvcc -O3 -arch=sm_90 kernel.cu -o kernel
nvcc --version
gcc -O2 main.c -o main
g++ -std=c++20 -c a.cpp
clang-format -i src/a.cpp
clang-tidy src/a.cpp
ld --version
ar rcs lib.a a.o
ldd build/kernel
nm -D build/lib.so | grep kill
objdump -d build/kernel | head
cuobjdump -sass build/kernel | head -100
nvdisasm kernel.cubin
readelf -d build/lib.so
./build/kernel --size 1024
./kernel
./run.py --help
ncu --set full -o build/report python k.py
ncu --import build/report.ncu-rep --page details
ncu --query-metrics
ncu -k regex:rms --launch-count 1 ./kernel
nsys profile -o build/trace python bench.py
nsys stats build/trace.nsys-rep
compute-sanitizer --tool memcheck ./kernel
compute-sanitizer --tool racecheck python k.py
cuda-gdb --args ./kernel --size 16
cuda-gdb -batch -ex run -ex bt --args python k.py
gdb -batch -ex bt -c core ./kernel
gdb -p 4242 -batch -ex bt
strace -c ls
strace -f -o build/strace.txt python k.py
strace -p 4242
ltrace ./kernel
perf stat ./kernel
perf record -g ./kernel
perf report --stdio
valgrind ./main
cargo build --release
cargo test
cargo run -- --help
cargo clippy
cargo fmt
cargo clean
go build ./...
go test ./...
go vet ./...
go mod tidy
npm install
npm ci
npm test
npm run build
npm run lint
npm ls
npx tsc --noEmit
npx prettier -w src
pnpm install
yarn build
node index.js
node -e 'console.log(1+1)'
node -p 'process.version'
node --test
tsc -p .
bazel build //...
bazel test //...
meson setup build
autoreconf -i
./configure --prefix=$PWD/build
ccache -s
java -jar app.jar
mvn -q test
gradle build
rustc --version
shellcheck run.sh
bash -n run.sh
bash run.sh
sh ./run.sh arg
./run.sh
bash -c 'echo hi'
bash -lc 'python bench.py'
sh -c 'cd src && ls'
env FOO=1 python bench.py
env -u FOO python bench.py
nohup python bench.py > bench.log 2>&1 &
setsid python bench.py > bench.log 2>&1 < /dev/null &
timeout 600 python bench.py
timeout -k 10 600 pytest -q
nice -n 10 make
ionice -c 3 cp big.bin build/
taskset -c 0-7 python bench.py
numactl --cpunodebind=0 --membind=0 python bench.py
stdbuf -oL python bench.py | tee bench.log
watch -n 5 nvidia-smi
watch -n1 'ls -l build'
parallel -j 4 python bench.py --seed ::: 1 2 3
xargs -P 4 -I{} python bench.py --seed {} < seeds.txt
flock build/lock python bench.py
script -c 'python bench.py' build/typescript
tmux new-session -d -s run-abc 'python bench.py'
tmux ls
tmux attach -t run-abc
tmux capture-pane -p -t run-abc
tmux send-keys -t run-abc 'ls' Enter
screen -ls
hyperfine 'python bench.py'
just --list
docker build -t run-abc:dev .
""".strip("\n")

HOST = r"""
nvidia-smi
nvidia-smi -L
nvidia-smi -q
nvidia-smi -q -i 0 -d MEMORY
nvidia-smi -q -x
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
nvidia-smi --query-gpu=timestamp,power.draw --format=csv -l 1
nvidia-smi --query-compute-apps=pid,used_memory --format=csv
nvidia-smi -i 0,1 --query-gpu=clocks.sm --format=csv,noheader,nounits -lms 500
nvidia-smi topo -m
nvidia-smi topo -p2p r
nvidia-smi nvlink -s
nvidia-smi nvlink --status -i 0
nvidia-smi dmon -s u -c 3
nvidia-smi pmon -c 1
nvidia-smi mig -lgip
nvidia-smi --help
nvidia-smi --version
nvidia-smi -h | head
nvidia-smi | grep python
amd-smi list
amd-smi metric -g 0
amd-smi static --json
amd-smi process
amd-smi monitor -putm
rocm-smi
rocm-smi --showuse --showmemuse
rocm-smi --showpids
nvtop
gpustat
nvitop -1
dcgmi discovery -l
dcgmi dmon -e 1002 -c 3
lspci | grep -i nvidia
lsmod | grep nvidia
modinfo nvidia
cat /proc/driver/nvidia/version
cat /proc/cpuinfo | head
cat /proc/meminfo
cat /proc/4242/status
cat /sys/class/net/eth0/mtu
sysctl -a | grep shmmax
sysctl kernel.pid_max
ulimit -a
mount | grep data
systemctl status docker
systemctl is-active nvidia-persistenced
systemctl list-units --failed
ip addr
ip link show
ifconfig
ping -c 1 gpu07
docker ps
docker ps -a --format '{{.Names}}'
docker images
docker logs -f sglang-run-abc
docker logs vllm-prod --tail 50
docker stats --no-stream
docker inspect --format '{{.State.Pid}}' sglang-run-abc
docker inspect -f '{{.Config.Image}}' vllm-prod
docker version
docker info
docker pull lmsysorg/sglang:latest
docker build -t x .
docker tag x run-abc:1
docker history x
docker top sglang-run-abc
docker port sglang-run-abc
docker exec sglang-run-abc nvidia-smi
docker exec -it sglang-run-abc bash -c 'ls /sgl-workspace'
docker exec sglang-run-abc python -m sglang.bench_serving --port 30000
docker exec sglang-run-abc pkill -f sglang
docker exec sglang-run-abc pip install -e /sgl-workspace
docker exec -w /sgl-workspace sglang-run-abc git log -1
docker stop sglang-run-abc
docker restart sglang-run-abc
docker rm -f sglang-run-abc
docker kill sglang-run-abc
docker cp sglang-run-abc:/tmp/trace.json.gz .
docker cp fix.py sglang-run-abc:/tmp/fix.py
docker run --rm alpine ls
docker run --rm -it --gpus device=0 --name sglang-run-abc img nvidia-smi
docker run --rm --gpus '"device=0,1"' -v /data/models:/models:ro --name sglang-run-abc img python -m sglang.launch_server --tp 2
docker run -d --gpus device=2 -e HF_TOKEN --shm-size 32g -p 30000:30000 --name sglang-run-abc img
docker run --rm -v "$PWD:/work" -w /work python:3.11 pytest -q
docker run --rm alpine rm -rf /tmp/x
docker run --rm ubuntu apt-get update
docker compose ps
docker compose logs
docker compose up -d
docker compose config
docker network ls
docker volume ls
docker system df
docker buildx ls
podman ps
kubectl get pods -n team
kubectl get nodes -o wide
kubectl describe pod run-abc-0 -n team
kubectl logs run-abc-0 -n team
kubectl top pods
kubectl config current-context
kubectl exec run-abc-0 -n team -- nvidia-smi
kubectl delete pod run-abc-0 -n team
kubectl version
helm list
helm status prod-llm
squeue
squeue -u $USER
sinfo
sacct -j 12345
scontrol show job 12345
scontrol show nodes
scancel 12345
srun -N1 --gpus=1 nvidia-smi
srun --jobid 12345 python bench.py
sbatch job.sbatch
kill 4242
kill -9 4242 4243
kill -TERM 4242
kill -- -4242
kill %1
python bench.py & kill $!
pkill -P 4242
renice -n 5 -p 4242
ssh gpu07 nvidia-smi
ssh gpu07 'ls /data/models'
ssh gpu07 'cd /data/runs/run-abc && git log -1'
ssh gpu07 "docker ps"
ssh -N -L 30000:localhost:30000 gpu07
scp gpu07:/data/runs/run-abc/out.json .
scp out.json gpu07:/data/runs/run-abc/
rsync -av gpu07:/data/runs/run-abc/out/ out/
sky status
ray status
curl -s http://localhost:30000/health
curl -s http://localhost:30000/get_server_info | jq .
curl -X POST http://localhost:30000/generate -H 'Content-Type: application/json' -d '{"text": "hi"}'
curl -s http://localhost:30000/v1/chat/completions -d '{"messages": [{"role": "user", "content": "kill it with rm -rf?"}]}'
curl -fsSL https://api.github.com/repos/sgl-project/sglang/releases/latest
curl -I https://huggingface.co
wget https://example.com/model.json
hf download meta-llama/Llama-3.1-8B config.json
huggingface-cli download meta-llama/Llama-3.1-8B --local-dir build/llama
hf auth whoami
hf cache scan
sudo nvidia-smi -q
sudo dmesg | tail
sudo lsof -i :30000
sudo ls /root
infer-forge triage trace.json.gz
infer-forge guard check -- 'rm -rf /'
infer-forge guard status
infer-forge guard own --path build
infer-forge engine stop server-1
infer-forge node status
infer-forge doctor
claude --version
codex --version
crontab -l
vim README.md
nano notes.md
code .
sqlite3 results.db 'select count(*) from rows'
sqlite3 results.db '.tables'
mysql --version
redis-cli ping
aws s3 ls s3://bucket/
aws s3 cp s3://bucket/x.json .
gsutil ls gs://bucket
wandb status
tensorboard --logdir build
""".strip("\n")


def _commands(text: str) -> list[str]:
    """One command a line; a heredoc takes the lines up to its end."""
    out: list[str] = []
    lines = iter(text.split("\n"))
    for line in lines:
        if "<<'EOF'" in line or "<<EOF" in line:
            body = [line]
            for more in lines:
                body.append(more)
                if more == "EOF":
                    break
            out.append("\n".join(body))
        elif line:
            out.append(line)
    return out


ORDINARY = [c for part in (SHELL, OWN_FILES, DATA_WORDS, GIT, PYTHON, BUILD, HOST) for c in _commands(part)]
