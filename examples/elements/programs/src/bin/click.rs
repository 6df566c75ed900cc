//! `click`, with more elements.

fn main() -> std::process::ExitCode {
    linerate_cli::click(example_elements::CLASSES)
}
