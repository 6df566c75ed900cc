//! Commands of the guide (`docs/guide`) are ones of this command line.

use clap::{Parser, error::ErrorKind};

use super::Cli;

#[path = "../../tests/guide/book.rs"]
#[allow(dead_code, reason = "the guide's other tests use the rest")]
mod book;

/// The words of each `linerate` in a line for a shell.
fn lines_for(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::<String>::new()];
    let (mut word, mut quote) = (None::<String>, None);
    for c in line.chars().chain([';']) {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ' | '|' | '&' | ';' | '<' | '>') => {
                commands.last_mut().expect("one").extend(word.take());
                if c != ' ' {
                    commands.push(Vec::new());
                }
            }
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    let from_name = |words: Vec<String>| {
        words.iter().position(|word| word == "linerate").map(|at| words[at..].to_vec())
    };
    commands.into_iter().filter_map(from_name).collect()
}

#[test]
fn every_command_of_the_guide_is_one() {
    let mut count = 0;
    for page in book::pages() {
        let typed = page.blocks.iter().flat_map(book::Block::typed);
        let said = page.spans.iter().map(String::as_str);
        let said = said.filter(|span| span.starts_with("linerate "));
        for line in typed.chain(said) {
            for words in lines_for(line) {
                count += 1;
                let Err(error) = Cli::try_parse_from(&words) else { continue };
                let named = match error.kind() {
                    ErrorKind::DisplayHelp => true,
                    ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => words.len() == 2,
                    // A command spoken of by its name alone.
                    ErrorKind::MissingRequiredArgument => words.len() == 2,
                    _ => false,
                };
                assert!(named, "{}: {line}\n{error}", page.name);
            }
        }
    }
    assert!(count > 60, "{count} commands");
}

#[test]
fn a_line_for_a_shell_has_commands() {
    let words = |line: &str| -> Vec<String> {
        lines_for(line).iter().map(|words| words.join(" ")).collect()
    };
    assert_eq!(words("sudo linerate run -e 'a & b' > x && y"), ["linerate run -e a & b"]);
    assert_eq!(words("until linerate call s v; do sleep 1; done"), ["linerate call s v"]);
    assert_eq!(words("zcat x | linerate sink - &"), ["linerate sink -"]);
}
