//! Names the shared library as programs that are linked with it ask for it.

fn main() {
    // 0 until its interface stays.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liblinerate_client.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
