#!/bin/sh
# Installs header, libraries, pkg-config file and manual pages:
#
#   cargo build --release -p linerate-client-c
#   sh crates/cluster/client-c/install.sh target/release /usr/local [LIBDIR]
#
# DESTDIR is put in front of all places, for who makes a package.
set -eu
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
    echo "install.sh BUILT PREFIX [LIBDIR]" >&2
    exit 2
fi
built=$1 prefix=$2 libdir=${3:-$2/lib}
here=$(dirname "$0")
root=${DESTDIR:-}
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$here/../../../Cargo.toml")
install -d "$root$prefix/include" "$root$libdir/pkgconfig" "$root$prefix/share/man/man3"
install -m 644 "$here/include/linerate_client.h" "$root$prefix/include/"
install -m 644 "$built/liblinerate_client_c.so" "$root$libdir/liblinerate_client.so.0"
ln -sf liblinerate_client.so.0 "$root$libdir/liblinerate_client.so"
install -m 644 "$built/liblinerate_client_c.a" "$root$libdir/liblinerate_client.a"
sed "s|@PREFIX@|$prefix|; s|@LIBDIR@|$libdir|; s|@VERSION@|$version|" "$here/linerate-client.pc.in" \
    >"$root$libdir/pkgconfig/linerate-client.pc"
chmod 644 "$root$libdir/pkgconfig/linerate-client.pc"
install -m 644 "$here/linerate_client.3" "$root$prefix/share/man/man3/"
for function in $(sed -n 's/.*[ *]\(lr_[a-z_]*\)(.*/\1/p' "$here/include/linerate_client.h" | sort -u); do
    echo ".so man3/linerate_client.3" >"$root$prefix/share/man/man3/$function.3"
done
