//! The reference of the ports, generated from the declarations of their drivers, for `linerate
//! ports --help-uri` and the guide's book.

use std::fmt::Write as _;

use linerate_port::{DRIVERS, Driver, PortOption, Value};
use serde_json::json;

use crate::reference::{cell, sentence, wrap};

/// Syntax of a port, for the index.
const URI: &str = "\
A port is written `KIND:OBJECT?OPTION=VALUE&OPTION=VALUE`, in quotes where a shell would take the
`&` or the `?` for itself: `linerate forward \"packet:eth1?queues=2&slots=8192\" null:`.

- An option that is a switch is on by its name alone; `=on`, `=yes`, `=true`, `=1` and `=off`, `=no`,
  `=false`, `=0` say it.
- In names and values `%` and two hexadecimal digits stand for a byte; `?`, `&` and `%` themselves
  are written `%3F`, `%26` and `%25`.
- What a kind of port does not know is refused, and so is what makes no sense together.
";

/// All pages of the reference: file names and contents.
pub(crate) fn pages() -> Vec<(String, String)> {
    let mut pages = vec![("README.md".to_owned(), index())];
    pages.extend(DRIVERS.iter().map(|driver| (format!("{}.md", driver.name), markdown(driver))));
    pages
}

/// The table of contents.
fn index() -> String {
    let mut text = "# Ports\n\n\
        Generated from the drivers themselves by `cargo xtask reference`; `linerate ports\n\
        --help-uri` prints the same.\n\n\
        A port is anything packets come from or go to.\n\n\
        | port | what it is |\n|---|---|\n"
        .to_owned();
    for driver in DRIVERS {
        let (name, object) = (driver.name, driver.object);
        let _ = writeln!(text, "| [`{name}:{object}`]({name}.md) | {} |", cell(driver.summary));
    }
    let _ = write!(text, "\n## How a port is written\n\n{URI}");
    text
}

/// A kind of port's page.
fn markdown(driver: &Driver) -> String {
    let mut text = format!("# {}:{}\n\n", driver.name, driver.object);
    let _ = writeln!(text, "{}.\n\n{}\n", sentence(driver.summary), driver.description);
    let _ = writeln!(text, "{}", driver.needs);
    for group in driver.options {
        let heading = match group.when {
            "" => "Options".to_owned(),
            when => format!("Options {when}"),
        };
        let _ = writeln!(text, "\n## {heading}\n\n| option | default | meaning |\n|---|---|---|");
        for option in group.options {
            let meaning = format!("{}{}", option.help, values(option, "`"));
            let row = [&*format!("`{}`", option.usage()), option.default, &meaning].map(cell);
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
    }
    text += "\n## Examples\n\n| port | what it is |\n|---|---|\n";
    for (port, what) in driver.examples {
        let _ = writeln!(text, "| `{}` | {} |", cell(port), cell(what));
    }
    text += "\n[All ports, and how they are written](README.md)\n";
    text
}

/// All kinds of port for a terminal.
pub(crate) fn list() -> String {
    let mut text = String::new();
    for driver in DRIVERS {
        let _ = writeln!(text, "{}\n    {}", driver.usage(), driver.summary);
    }
    text + "\n`linerate ports --help-uri KIND` explains one.\n"
}

/// A kind of port for a terminal.
pub(crate) fn text(driver: &Driver) -> String {
    let mut text = format!("{}:{}: {}\n\n", driver.name, driver.object, driver.summary);
    text += &wrap(driver.description, 0);
    let _ = write!(text, "\n{}", wrap(driver.needs, 0));
    for group in driver.options {
        let space = if group.when.is_empty() { "" } else { " " };
        let _ = writeln!(text, "\nOptions{space}{}", group.when);
        for option in group.options {
            let _ = writeln!(text, "  {} [{}]", option.usage(), option.default);
            text += &wrap(&format!("{}{}", option.help, values(option, "")), 6);
        }
    }
    text += "\nExamples\n";
    for (port, what) in driver.examples {
        let _ = writeln!(text, "  {port}\n      {what}");
    }
    text
}

/// A kind of port for programs.
pub(crate) fn json(driver: &Driver) -> serde_json::Value {
    let options = driver.options.iter().flat_map(|group| {
        group.options.iter().map(|option| {
            json!({
                "name": option.name,
                "usage": option.usage(),
                "value": option.value.expected(),
                "default": option.default,
                "when": group.when,
                "help": option.help,
            })
        })
    });
    json!({
        "name": driver.name,
        "usage": driver.usage(),
        "summary": driver.summary,
        "description": driver.description,
        "needs": driver.needs,
        "options": options.collect::<Vec<_>>(),
        "examples": driver.examples.iter().map(|(port, _)| port).collect::<Vec<_>>(),
    })
}

/// The values of an option, behind its help; `quote` is around words.
fn values(option: &PortOption, quote: &str) -> String {
    match option.value {
        Value::Switch | Value::Text { .. } => String::new(),
        number @ Value::Number { .. } => format!(" {}.", sentence(&number.expected())),
        Value::Word(words) => {
            let words = words.iter().map(|(word, means)| format!("{quote}{word}{quote}: {means}"));
            format!(" {}.", words.collect::<Vec<_>>().join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::assert_written;

    #[test]
    fn the_reference_is_written_and_its_links_lead_to_pages() {
        assert_written(pages());
    }

    #[test]
    fn a_page_and_a_text_have_every_option() {
        for driver in DRIVERS {
            let (page, text) = (markdown(driver), text(driver));
            for option in driver.all_options() {
                let row = format!("| `{}` | ", cell(&option.usage()));
                assert!(page.contains(&row), "{row} is not in\n{page}");
                assert!(text.contains(&format!("\n  {} [", option.usage())), "{text}");
            }
            assert!(list().contains(&driver.usage()));
        }
    }
}
