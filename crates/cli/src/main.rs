//! The `linerate` command.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    linerate_cli::linerate(&[])
}
