//! Names the shared library as programs that are linked with libpcap ask for it.

fn main() {
    // Debian's name; upstream's own build calls it libpcap.so.1, under which it is found by a link.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpcap.so.0.8");
    println!("cargo::rerun-if-changed=build.rs");
}
