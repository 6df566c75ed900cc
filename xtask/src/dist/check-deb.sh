# Installs a Debian package on this machine's system, uses it and removes it. What is written goes
# to memory, on top of the root that the machine has. Called with a folder, the package and its
# name, in a mount and a network namespace.
set -eu
memory=$1 package=$2 name=$3
mount -t tmpfs tmpfs "$memory"
mkdir "$memory/upper" "$memory/work" "$memory/root"
root=$memory/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$memory/upper,workdir=$memory/work" "$root"
for kernel in proc sys dev; do
    mount --rbind "/$kernel" "$root/$kernel"
done
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
cp "$package" "$root/tmp/$name"
ip link add left type veth peer name right
ip link set left up
ip link set right up
inside() {
    chroot "$root" "$@"
}
fail() {
    echo "the package: $1" >&2
    exit 1
}

inside dpkg --install "/tmp/$name"
inside sh -euc 'cd /usr/share/doc/linerate && linerate run examples/first.click --duration 1s'
inside click --version
inside ls /usr/share/man/man1/linerate.1.gz /usr/share/man/man1/linerate-run.1.gz
inside bash -c '. /usr/share/bash-completion/completions/linerate && complete -p linerate'

# Nobody may not open an interface, a member of the group may.
group=$(inside getent group linerate | cut -d: -f3)
as_nobody() {
    inside setpriv --reuid 65534 --regid 65534 "$@"
}
forward="linerate forward packet:left null: --duration 100ms --quiet"
code=0
as_nobody --clear-groups $forward || code=$?
[ $code = 3 ] || fail "somebody outside its group opens an interface: code $code"
as_nobody --groups "$group" $forward || fail "a member of its group cannot open interfaces"

printf 'Idle -> Discard;\n' >"$root/etc/linerate/check.click"
inside systemd-analyze verify /usr/lib/systemd/system/linerate@check.service

inside dpkg --purge linerate
for path in /usr/bin/linerate /usr/lib/linerate /usr/lib/systemd/system/linerate@.service; do
    [ ! -e "$root$path" ] || fail "$path is left"
done
! inside getent group linerate || fail "its group is left"
