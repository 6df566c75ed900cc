//! `click`: takes Click's command line and behaves as Click does.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    linerate_cli::click(&[])
}
