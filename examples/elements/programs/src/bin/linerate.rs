//! `linerate`, with more elements.

fn main() -> std::process::ExitCode {
    linerate_cli::linerate(example_elements::CLASSES)
}
