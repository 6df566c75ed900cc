//! Names the shared library as programs that are linked with libpcap ask for it, and says where this
//! machine's kind has its libraries.

use std::env;

fn main() {
    // Debian's name; upstream's own build calls it libpcap.so.1, under which it is found by a link.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpcap.so.0.8");
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo says it");
    println!("cargo::rustc-env=LINERATE_MULTIARCH={architecture}-linux-gnu");
    println!("cargo::rerun-if-changed=build.rs");
}
