//! `click-flatten`: a configuration without compound elements.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    linerate_cli::click_flatten()
}
