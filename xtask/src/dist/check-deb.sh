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
inside grep -q '^# Queue' /usr/share/doc/linerate/guide/elements/Queue.md
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
for service in linerate linerate-cluster linerate-consumer linerate-switch; do
    inside systemd-analyze verify "/usr/lib/systemd/system/$service@check.service"
done
inside getent passwd linerate-cluster

# A program that is written for libpcap runs on a port.
inside sh -euc 'linerate generate pcap:/tmp/all.pcap --quiet --count 7
    linerate pcap --quiet -- tcpdump -n -i pcap:/tmp/all.pcap -w /tmp/some.pcap 2>/tmp/said.txt
    grep -q "^7 packets captured" /tmp/said.txt' || fail "tcpdump does not capture from a port"

# A program in C gets packets by the library, as a server of the package shares them out.
inside sh -euc 'cd /usr/share/doc/linerate/examples/client
    cc flows.c $(pkg-config --cflags --libs linerate-client) -o /tmp/flows
    ls /usr/share/man/man3/lr_attach.3.gz
    linerate cluster serve --quiet --duration 2s --socket /tmp/check.sock \
        -e "RatedSource(LENGTH 60, RATE 1000, LIMIT -1) -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2) -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> ToConsumer(flows)" &
    until [ -S /tmp/check.sock ]; do sleep 0.1; done
    /tmp/flows -i 0 /tmp/check.sock flows >/tmp/flows.txt
    wait
    grep -q "^10.0.0.1 1, 10.0.0.2 2, protocol 17: " /tmp/flows.txt' || fail "flows.c sees no packets"

inside dpkg --purge linerate
for path in /usr/bin/linerate /usr/lib/linerate /usr/lib/systemd/system/linerate@.service \
    /usr/include/linerate_client.h; do
    [ ! -e "$root$path" ] || fail "$path is left"
done
! inside getent passwd linerate-cluster || fail "its user is left"
! inside getent group linerate || fail "its group is left"
