//! Profiles of `linerate generate`: several streams in a file.
//!
//! A stream has the options of the command line as keys, so that both are declared once, and a name
//! and a weight besides.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Parser;
use toml::{Table, Value};

use crate::args::Stream;

/// A stream of a profile.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) stream: Stream,
    pub(crate) share: Share,
}

/// How many of the frames are a stream's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Share {
    /// As its `rate` says.
    Rate,
    /// Its weight among the weights of all.
    Weight(f64),
}

/// The options of a stream, as on a command line.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Line {
    #[command(flatten)]
    stream: Stream,
}

/// Reads a file with streams.
pub(crate) fn read(path: &Path) -> Result<Vec<Named>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the profile {}", path.display()))?;
    let mut streams = parse(&text).with_context(|| path.display().to_string())?;
    // Captures lie beside the profile.
    for Named { stream, .. } in &mut streams {
        if let (Some(capture), Some(folder)) = (&mut stream.pcap, path.parent()) {
            *capture = folder.join(&*capture);
        }
    }
    Ok(streams)
}

fn parse(text: &str) -> Result<Vec<Named>> {
    let mut file: Table = toml::from_str(text)?;
    let streams = file.remove("stream");
    if let Some(key) = file.keys().next() {
        bail!("{key}: a profile has nothing but [[stream]] tables");
    }
    let Some(Value::Array(streams)) = streams.filter(|streams| streams != &Value::Array(vec![]))
    else {
        bail!("no stream: write a [[stream]] table for each");
    };
    let numbered = (1..).zip(streams);
    let streams: Vec<Named> = numbered
        .map(|(number, stream)| {
            let Value::Table(stream) = stream else { bail!("stream is not a table: [[stream]]") };
            let name = match stream.get("name") {
                None => number.to_string(),
                Some(Value::String(name)) => name.clone(),
                Some(_) => bail!("stream {number}: its name is not text"),
            };
            named(name.clone(), stream).with_context(|| format!("stream {name}"))
        })
        .collect::<Result<_>>()?;
    let rates = streams.iter().filter(|stream| stream.share == Share::Rate).count();
    if rates != 0 && rates != streams.len() {
        bail!("some streams have a rate and some do not: give all a rate, or all a weight");
    }
    Ok(streams)
}

fn named(name: String, mut keys: Table) -> Result<Named> {
    keys.remove("name");
    let weight = match keys.remove("weight") {
        None => None,
        Some(Value::Integer(weight)) if weight > 0 => Some(weight as f64),
        Some(Value::Float(weight)) if weight > 0.0 && weight.is_finite() => Some(weight),
        Some(_) => bail!("its weight is not a number above zero"),
    };
    let share = match (weight, keys.contains_key("rate")) {
        (Some(_), true) => bail!("it has a rate and a weight: one is enough"),
        (None, true) => Share::Rate,
        (weight, false) => Share::Weight(weight.unwrap_or(1.0)),
    };
    let mut words = Vec::new();
    for (key, value) in &keys {
        let option = format!("--{}", key.replace('_', "-"));
        match value {
            Value::Boolean(false) => {}
            Value::Boolean(true) => words.push(option),
            value => words.push(format!("{option}={}", word(key, value)?)),
        }
    }
    let line = Line::try_parse_from(words).map_err(|error| {
        // The rest is of the command line.
        let text = error.to_string();
        let lines = text.lines().take_while(|line| !line.starts_with("Usage:"));
        let text = lines.map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>();
        anyhow::anyhow!("{}", text.join("; ").trim_start_matches("error: ").to_owned())
    })?;
    Ok(Named { name, stream: line.stream, share })
}

/// A value as it is typed.
fn word(key: &str, value: &Value) -> Result<String> {
    Ok(match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Array(all) => {
            all.iter().map(|one| word(key, one)).collect::<Result<Vec<_>>>()?.join(",")
        }
        _ => bail!("{key} is neither text nor a number"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_have_the_options_of_the_command_line() {
        let streams = parse(
            "[[stream]]\nname = \"voice\"\nsize = 200\nrate = \"5kpps\"\nvlan = \"10-19\"\n\
             [[stream]]\nsize = [64, 128]\nipv6 = true\nouter_vlan = 5\nvlan = 7\nrate = \"1%\"\n\
             unsigned = false\npayload = \"0xdead\"",
        )
        .unwrap();
        assert_eq!((streams.len(), &*streams[0].name, &*streams[1].name), (2, "voice", "2"));
        let traffic = streams[1].stream.traffic(None, 3).unwrap();
        assert!(traffic.ipv6 && traffic.signed && traffic.sizes.largest() == 128);
        assert_eq!(
            (traffic.outer_vlan, traffic.payload, traffic.seed),
            (Some(5), vec![0xde, 0xad], 3)
        );
        assert_eq!(
            streams[0].stream.traffic(None, 1).unwrap().variation.vlans.unwrap().count(),
            10
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_the_stream() {
        let cases = [
            ("", "no stream"),
            ("stream = 1", "no stream"),
            ("rate = 1\n[[stream]]", "rate: a profile has nothing but"),
            ("[[stream]]\nname = \"a\"\nsise = 64", "stream a: unexpected argument '--sise'"),
            ("[[stream]]\nsize = \"big\"", "stream 1: invalid value 'big' for '--size"),
            ("[[stream]]\nouter_vlan = 3", "--vlan"),
            ("[[stream]]\nweight = 0", "stream 1: its weight"),
            ("[[stream]]\nweight = 1\nrate = \"1pps\"", "one is enough"),
            ("[[stream]]\nrate = \"1pps\"\n[[stream]]", "give all a rate"),
            ("[[stream]]\nsize = { a = 1 }", "size is neither text nor a number"),
        ];
        for (text, expected) in cases {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
