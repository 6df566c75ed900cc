//! Declaration of a kind of port, once: `linerate ports --help-uri` and the pages of the reference come from
//! here.

use crate::{
    error::OpenError,
    options::{OptionGroup, PortOption},
    port::{Context, Port},
    uri::PortUri,
};

/// A kind of port.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    /// The part of a port's name before the colon.
    pub name: &'static str,
    /// The part behind the colon, as help texts call it: `IF`, or nothing.
    pub object: &'static str,
    /// Summary, in a line.
    pub summary: &'static str,
    /// Description, in Markdown.
    pub description: &'static str,
    /// Requirements to open one, in a sentence.
    pub needs: &'static str,
    /// Examples of ports, each with its meaning.
    pub examples: &'static [(&'static str, &'static str)],
    /// Its options.
    pub options: &'static [OptionGroup],
    /// Whether it needs an interface that is there.
    pub(crate) interface: bool,
    pub(crate) open: fn(&PortUri, &Context) -> Result<Port, OpenError>,
}

impl Driver {
    /// Returns the notation of such a port: `null:[?size=N&copy]`.
    pub fn usage(&self) -> String {
        let options: Vec<String> = self.all_options().map(PortOption::usage).collect();
        let query = match options.as_slice() {
            [] => String::new(),
            options => format!("[?{}]", options.join("&")),
        };
        format!("{}:{}{query}", self.name, self.object)
    }

    /// The options of all groups.
    pub fn all_options(&self) -> impl Iterator<Item = &'static PortOption> {
        self.options.iter().flat_map(|group| group.options)
    }
}

#[cfg(test)]
mod tests {
    use linerate_memory::ArenaOptions;

    use super::*;
    use crate::{DRIVERS, Direction, UriError, Value, open};

    const DIRECTIONS: [Direction; 3] = [Direction::Receive, Direction::Transmit, Direction::Both];

    /// Errors that opening reports on its name's options, in every direction. The rest of the name
    /// is such that nothing outside is touched.
    fn complaints(driver: &Driver, query: &str) -> Vec<Option<UriError>> {
        let object = match driver.name {
            "tap" | "tun" => "no interface has spaces",
            "pcap" | "memif" | "vhost" => "/nonesuch/nonesuch",
            _ => "nonesuch0",
        };
        let uri = format!("{}:{object}?{query}", driver.name).parse().unwrap();
        let arena = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
        let context = Context::new(arena.create().unwrap());
        let complaint = |direction| match open(&uri, &context.toward(direction)) {
            Err(OpenError::Uri(UriError::Syntax { .. })) => None,
            Err(OpenError::Uri(error)) => Some(error),
            _ => None,
        };
        DIRECTIONS.map(complaint).into()
    }

    /// A query with an option, and with others that it needs to be of use.
    fn query(driver: &Driver, option: &PortOption, value: &str) -> String {
        let group = driver
            .options
            .iter()
            .find(|group| group.options.iter().any(|of| std::ptr::eq(of, option)));
        let role = match group.map(|group| group.when) {
            Some("when it is the driver") => "role=driver&",
            Some("when it is the server") => "role=server&",
            _ => "",
        };
        format!("{role}{}={value}", option.name)
    }

    #[test]
    fn every_declared_option_is_parsed_as_declared() {
        for driver in DRIVERS {
            for option in driver.all_options() {
                let name = format!("{}: {}", driver.name, option.name);
                let wrong = match option.value {
                    Value::Number { most: u64::MAX, .. } => "-1".into(),
                    Value::Number { most, .. } => (most + 1).to_string(),
                    // Some take any.
                    _ => "?".to_owned(),
                };
                let found = complaints(driver, &query(driver, option, &wrong));
                let refused = |found: &Option<UriError>| matches!(found, Some(UriError::Value { option: of, .. }) if *of == option.name);
                let any =
                    matches!(option.value, Value::Text { form: "FILE" | "NAME" | "SECRET", .. });
                assert!(any || found.iter().any(refused), "{name}: {found:?}");
                assert!(!any || found.iter().any(Option::is_none), "{name}: {found:?}");
            }
        }
    }

    #[test]
    fn every_word_and_every_default_that_is_a_value_is_taken() {
        for driver in DRIVERS {
            for option in driver.all_options() {
                let values = match option.value {
                    Value::Word(words) => words.iter().map(|(word, _)| *word).collect(),
                    Value::Number { .. } => {
                        option.default.parse::<u64>().iter().map(|_| option.default).collect()
                    }
                    _ => vec!["on"; usize::from(matches!(option.value, Value::Switch))],
                };
                for value in values {
                    let found = complaints(driver, &query(driver, option, value));
                    // Not every word makes sense alone, but then another option is spoken of.
                    let fine = |found: &Option<UriError>| match found {
                        Some(UriError::Value { expected, .. }) => {
                            *expected != option.value.expected()
                        }
                        found => found.is_none(),
                    };
                    assert!(
                        found.iter().any(fine),
                        "{}: {}={value}: {found:?}",
                        driver.name,
                        option.name
                    );
                }
            }
        }
    }

    #[test]
    fn an_unknown_option_is_refused_with_the_known_ones_and_the_one_meant() {
        for driver in DRIVERS {
            for found in complaints(driver, "nonesuch") {
                let error = found.unwrap().to_string();
                assert!(
                    error.contains("there is no option \"nonesuch\"; options are: "),
                    "{error}"
                );
                let known = driver.all_options().filter(|option| error.contains(option.name));
                assert!(known.count() > 0, "{error}");
            }
            let option = driver.options[0].options[0].name;
            let found = complaints(driver, &format!("{option}x"));
            let hint = format!("; did you mean {option}?");
            let meant = |found: &Option<UriError>| {
                found.as_ref().is_some_and(|error| error.to_string().ends_with(&hint))
            };
            assert!(found.iter().any(meant), "{found:?}");
        }
    }

    #[test]
    fn every_driver_and_option_is_explained() {
        let is_line = |text: &str| !text.is_empty() && !text.contains('\n');
        for driver in DRIVERS {
            assert!(is_line(driver.summary) && is_line(driver.needs), "{}", driver.name);
            assert!(driver.description.trim().len() > 60, "{}", driver.name);
            assert!(!driver.examples.is_empty(), "{}", driver.name);
            for (port, _) in driver.examples {
                assert_eq!(port.parse::<PortUri>().unwrap().driver(), driver.name);
            }
            for option in driver.all_options() {
                let name = format!("{}: {}", driver.name, option.name);
                assert!(is_line(option.help) && option.help.ends_with('.'), "{name}");
                assert!(is_line(option.default), "{name}");
            }
            let mut names: Vec<&str> = driver.all_options().map(|option| option.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), driver.all_options().count(), "{} twice", driver.name);
        }
    }

    #[test]
    fn the_options_of_every_example_are_taken() {
        for driver in DRIVERS {
            for (port, _) in driver.examples {
                let query = port.split_once('?').map_or("", |(_, query)| query);
                let found = complaints(driver, query);
                assert!(found.iter().any(Option::is_none), "{port}: {found:?}");
            }
        }
    }
}
