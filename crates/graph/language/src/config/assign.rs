//! Assignment of arguments to parameters.

use std::collections::HashMap;

use super::split::{join, keyword};

/// Kind of argument that a parameter of a compound takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// The next argument.
    Positional,
    /// The argument that starts with this keyword.
    Keyword(String),
    /// All arguments the others left.
    Rest,
}

/// The value of each parameter, or nothing if the arguments do not fit: every
/// positional parameter and every keyword needs its argument, and an argument
/// that belongs to none is for the rest. The parameters are in the order
/// positional, keywords, rest.
pub fn assign(arguments: &[String], parameters: &[Parameter]) -> Option<Vec<String>> {
    let positional =
        parameters.iter().take_while(|&parameter| *parameter == Parameter::Positional).count();
    let rest = parameters.last() == Some(&Parameter::Rest);
    let mut values: Vec<Option<String>> = vec![None; parameters.len()];
    let keywords: HashMap<&str, usize> = parameters
        .iter()
        .enumerate()
        .filter_map(|(index, parameter)| match parameter {
            Parameter::Keyword(name) => Some((name.as_str(), index)),
            Parameter::Positional | Parameter::Rest => None,
        })
        .collect();
    let mut left = Vec::new();
    for (index, argument) in arguments.iter().enumerate() {
        if index < positional {
            values[index] = Some(argument.clone());
            continue;
        }
        let named = keyword(argument).and_then(|(name, value)| Some((*keywords.get(name)?, value)));
        match named {
            // Given twice, the last one counts.
            Some((parameter, value)) => values[parameter] = Some(value.to_owned()),
            None => left.push(argument.as_str()),
        }
    }
    if rest {
        let last = parameters.len() - 1;
        values[last] = Some(join(&left));
    } else if !left.is_empty() {
        return None;
    }
    values.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(config: &str, parameters: &str) -> Option<Vec<String>> {
        let parameters: Vec<_> = parameters
            .split_whitespace()
            .map(|word| match word {
                "_" => Parameter::Positional,
                "..." => Parameter::Rest,
                word => Parameter::Keyword(word.into()),
            })
            .collect();
        assign(&super::super::split(config), &parameters)
    }

    #[test]
    fn table() {
        for (config, parameters, expected) in [
            ("", "", Some(&[][..])),
            ("a", "", None),
            ("a", "_", Some(&["a"])),
            ("", "_", None),
            ("a, b", "_", None),
            ("a, K 1", "_ K", Some(&["a", "1"])),
            ("K 1", "_ K", None),
            ("a", "_ K", None),
            ("a, K 1, b", "_ K", None),
            ("a, K 1, K 2", "_ K", Some(&["a", "2"])),
            ("L 2, K 1 x", "K L", Some(&["1 x", "2"])),
            ("a, b, K 1, c", "_ K ...", Some(&["a", "1", "b, c"])),
            ("a", "_ ...", Some(&["a", ""])),
            ("", "_ ...", None),
        ] {
            let expected = expected.map(|values| values.iter().map(ToString::to_string).collect());
            assert_eq!(assigned(config, parameters), expected, "{config} | {parameters}");
        }
    }
}
