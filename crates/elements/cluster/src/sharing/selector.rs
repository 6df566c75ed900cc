//! Selectors: the packets that programs get, by filters and expressions.

use linerate_elements_matching::Expression;
use linerate_filter::Filter;
use linerate_graph::{ElementBuilder, Scope, Text, filter_names, unquoted};

/// A selector of packets: those that both of these accept, or all.
#[derive(Default)]
pub(super) struct PacketSelector {
    /// Filter in tcpdump's language.
    filter: Option<Filter>,
    /// Filter in `IPFilter`'s language.
    expression: Option<Expression>,
}

impl PacketSelector {
    /// The selector of an element, for all of its packets.
    pub(super) fn of_all(make: &mut ElementBuilder<'_>) -> PacketSelector {
        let text = |make: &mut ElementBuilder<'_>, name| {
            make.get::<Text>(name).map(|Text(text)| unquoted(&text)).unwrap_or_default()
        };
        let (filter, expression) = (text(make, "FILTER"), text(make, "WHERE"));
        PacketSelector::read(make, &filter, &expression)
    }

    /// Names, and behind words of their own which packets they want: `NAME... [if FILTER] [where
    /// EXPRESSION]`.
    pub(super) fn with_names(
        make: &mut ElementBuilder<'_>,
        text: &str,
    ) -> (Vec<String>, PacketSelector) {
        let [names, filter, expression] = parts(text);
        for (word, said) in [("if", &filter), ("where", &expression)] {
            if said.is_empty() && text.split_whitespace().any(|other| other == word) {
                make.error(format!("`{text}`: what is wanted is to stand behind `{word}`"));
            }
        }
        let selector = PacketSelector::read(make, &filter.join(" "), &expression.join(" "));
        (names.into_iter().map(str::to_owned).collect(), selector)
    }

    fn read(make: &mut ElementBuilder<'_>, filter: &str, expression: &str) -> PacketSelector {
        let scope = Scope { plan: make.plan(), names: &make.world.names, name: make.name() };
        let given = |text: &str| !text.is_empty();
        let filter = given(filter).then(|| (filter, self::filter(filter)));
        let expression =
            given(expression).then(|| (expression, Expression::new(expression, scope)));
        let mut told = |text: &str, error: String| make.error(format!("{text}: {error}"));
        PacketSelector {
            filter: filter.and_then(|(text, read)| read.map_err(|error| told(text, error)).ok()),
            expression: expression
                .and_then(|(text, read)| read.map_err(|error| told(text, error)).ok()),
        }
    }

    /// Returns true if all packets are wanted.
    pub(super) fn is_all(&self) -> bool {
        self.filter.is_none() && self.expression.is_none()
    }

    /// Returns true if a packet is wanted.
    pub(super) fn accepts(&self, packet: &[u8]) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.accepts(packet))
            && self.expression.as_ref().is_none_or(|expression| expression.holds(packet))
    }
}

/// The names of such a text.
pub(crate) fn names(text: &str) -> Vec<String> {
    let [names, ..] = parts(text);
    names.into_iter().map(str::to_owned).collect()
}

/// Names, words of a filter, and words of an expression.
fn parts(text: &str) -> [Vec<&str>; 3] {
    let mut parts = [const { Vec::new() }; 3];
    let mut at = 0;
    for word in text.split_whitespace() {
        match word {
            "if" => at = 1,
            "where" => at = 2,
            word => parts[at].push(word),
        }
    }
    parts
}

/// Parses a filter in tcpdump's language, with the names that the system knows.
fn filter(text: &str) -> Result<Filter, String> {
    Filter::new(text, filter_names(None))
}
