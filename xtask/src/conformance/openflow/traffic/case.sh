# Runs a case of the suite in namespaces that are its own: network, mounts and processes, all of which end with
# this shell. With --list it says which cases there are.
# SUITE is the folder of the suite, PROGRAMS one with programs in front of Open vSwitch's, or nothing.
set -u
prepare() {
    ln -s "$SUITE/atlocal" "$SUITE/package.m4" .
    here=$(pwd)
    cat > atconfig <<CONFIG
at_testdir=tests
abs_builddir=$here
at_srcdir=$SUITE/tests
abs_srcdir=$SUITE/tests
at_top_srcdir=$SUITE
abs_top_srcdir=$SUITE
at_top_build_prefix=$here/
abs_top_builddir=$here
at_top_builddir=$here/
EXEEXT=
AUTOTEST_PATH=${PROGRAMS:-}
SHELL=/bin/sh
CONFIG
}
script=$SUITE/system-userspace-testsuite
if test "$1" = --list; then
    folder=$(mktemp -d) && cd "$folder" || exit 1
    prepare
    /bin/sh "$script" -C "$folder" -l
    status=$?
    rm -r "$folder"
    exit $status
fi
ip link set lo up
mount -t tmpfs -o mode=755 none /run
mkdir -p /run/netns /run/case
cd /run/case
prepare
/bin/sh "$script" -C /run/case AUTOTEST_PATH="${PROGRAMS:-}" "$1" </dev/null
# They are there where the case did not pass.
for log in system-userspace-testsuite.dir/*/system-userspace-testsuite.log \
    system-userspace-testsuite.dir/*/linerate/*.said; do
    test -f "$log" && { echo "--- ${log##*/} ---"; tail -n 400 "$log"; }
done
exit 0
