//! Profiles of `linerate generate`: several streams in a file, or kinds of connections.
//!
//! A stream has the options of the command line as keys, so that both are declared once, and a name
//! and a weight besides. Connections have keys of their own, which are declared in the same way.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Parser;
use toml::{Table, Value};

use crate::{
    args::{Connections, Stream},
    exit::UsageError,
};

/// Content of a profile.
#[derive(Debug)]
pub(crate) enum Profile {
    /// Frames.
    Streams(Vec<ProfileStream>),
    /// TCP connections, with names.
    Connections(Vec<(String, Connections)>),
}

/// A stream of a profile.
#[derive(Debug)]
pub(crate) struct ProfileStream {
    pub(crate) name: String,
    pub(crate) stream: Stream,
    pub(crate) share: Share,
}

/// A stream's share of the frames.
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
struct StreamLine {
    #[command(flatten)]
    stream: Stream,
}

/// The options of connections, in the same way.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct ConnectionsLine {
    #[command(flatten)]
    connections: Connections,
}

/// Reads a profile.
pub(crate) fn read(path: &Path) -> Result<Profile> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the profile {}", path.display()))?;
    let wrong = |error| UsageError(format!("{}: {error:#}", path.display()).trim_end().into());
    let mut profile = parse(&text).map_err(wrong)?;
    // Captures lie beside the profile.
    if let Profile::Streams(streams) = &mut profile {
        for ProfileStream { stream, .. } in streams {
            if let (Some(capture), Some(folder)) = (&mut stream.pcap, path.parent()) {
                *capture = folder.join(&*capture);
            }
        }
    }
    Ok(profile)
}

fn parse(text: &str) -> Result<Profile> {
    let mut file: Table = toml::from_str(text)?;
    let (streams, connections) = (file.remove("stream"), file.remove("connections"));
    if let Some(key) = file.keys().next() {
        bail!("{key}: a profile has nothing but [[stream]] or [[connections]] tables");
    }
    match (streams, connections) {
        (Some(_), Some(_)) => {
            bail!("streams and connections in one profile: run a generator for each, on two ports")
        }
        (None, Some(connections)) => {
            let tables = tables("connections", Some(connections))?;
            let read = |(name, keys): (String, Table)| -> Result<(String, Connections)> {
                let of = format!("connections {name}");
                Ok((name, connections_of(keys).context(of)?))
            };
            Ok(Profile::Connections(tables.into_iter().map(read).collect::<Result<_>>()?))
        }
        (None, None) => bail!("no stream: write a [[stream]] table for each, or [[connections]]"),
        (streams, None) => Ok(Profile::Streams(parse_streams(streams)?)),
    }
}

/// The tables of a kind, with their names, which are numbers where none are given.
fn tables(kind: &str, value: Option<Value>) -> Result<Vec<(String, Table)>> {
    let Some(Value::Array(all)) = value.filter(|all| all != &Value::Array(vec![])) else {
        bail!("no {kind}: write a [[{kind}]] table for each");
    };
    let numbered = (1..).zip(all);
    numbered
        .map(|(number, one)| {
            let Value::Table(mut keys) = one else { bail!("{kind} is not a table: [[{kind}]]") };
            let name = match keys.remove("name") {
                None => number.to_string(),
                Some(Value::String(name)) => name,
                Some(_) => bail!("{kind} {number}: its name is not text"),
            };
            Ok((name, keys))
        })
        .collect()
}

fn parse_streams(streams: Option<Value>) -> Result<Vec<ProfileStream>> {
    let read = |(name, keys): (String, Table)| {
        let of = format!("stream {name}");
        named(name, keys).context(of)
    };
    let streams: Vec<ProfileStream> =
        tables("stream", streams)?.into_iter().map(read).collect::<Result<_>>()?;
    let rates = streams.iter().filter(|stream| stream.share == Share::Rate).count();
    if rates != 0 && rates != streams.len() {
        bail!("some streams have a rate and some do not: give all a rate, or all a weight");
    }
    Ok(streams)
}

fn named(name: String, mut keys: Table) -> Result<ProfileStream> {
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
    let line = StreamLine::try_parse_from(words(&keys)?).map_err(|error| complaint(&error))?;
    Ok(ProfileStream { name, stream: line.stream, share })
}

fn connections_of(keys: Table) -> Result<Connections> {
    let line = ConnectionsLine::try_parse_from(words(&keys)?);
    Ok(line.map_err(|error| complaint(&error))?.connections)
}

/// Keys and values as a command line.
fn words(keys: &Table) -> Result<Vec<String>> {
    let mut words = Vec::new();
    for (key, value) in keys {
        let option = format!("--{}", key.replace('_', "-"));
        match value {
            Value::Boolean(false) => {}
            Value::Boolean(true) => words.push(option),
            value => words.push(format!("{option}={}", word(key, value)?)),
        }
    }
    Ok(words)
}

/// The mistake in it; the rest of the error is of the command line.
fn complaint(error: &clap::Error) -> anyhow::Error {
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.starts_with("Usage:"));
    let text = lines.map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>();
    anyhow::anyhow!("{}", text.join("; ").trim_start_matches("error: ").to_owned())
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

    fn streams(text: &str) -> Vec<ProfileStream> {
        let Profile::Streams(streams) = parse(text).unwrap() else { panic!("{text}") };
        streams
    }

    #[test]
    fn streams_have_the_options_of_the_command_line() {
        let streams = streams(
            "[[stream]]\nname = \"voice\"\nsize = 200\nrate = \"5kpps\"\nvlan = \"10-19\"\n\
             [[stream]]\nsize = [64, 128]\nipv6 = true\nouter_vlan = 5\nvlan = 7\nrate = \"1%\"\n\
             unsigned = false\npayload = \"0xdead\"",
        );
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
    fn the_example_is_one_of_connections() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/connections.toml");
        let Profile::Connections(groups) = read(Path::new(path)).unwrap() else {
            panic!("{path} has streams")
        };
        let names: Vec<&str> = groups.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["web", "database"]);
    }

    #[test]
    fn errors_of_a_profile_name_the_stream() {
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
            ("[[connections]]\nname = \"a\"\nsize = 64", "connections a: unexpected argument"),
            ("[[connections]]\nthink = \"long\"", "connections 1: invalid value 'long' for"),
            ("connections = 1", "no connections"),
            ("[[stream]]\n[[connections]]", "run a generator for each"),
        ];
        for (text, expected) in cases {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
