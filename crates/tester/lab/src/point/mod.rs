//! One measurement: its specification, its name and its result.
//!
//! A [`Spec`] has all that a point depends on besides the machine, so equal specs ask for the same
//! point wherever they come from: an experiment, a file, another machine. Its [`Key`] is the hash
//! of its canonical form. A [`Record`] is the line that is kept of it.

mod key;
mod kind;
mod record;
pub mod value;

use serde::{Deserialize, Serialize, de::Error as _};
use serde_json::{Map, Value};

pub use key::Key;
pub use kind::{
    Arguments, BatchCase, Case, Cluster, Destinations, Division, Driver, Element, Forward, Graph,
    Idle, Inline, InlinePath, Latency, Load, Pages, Pipeline, Placement, Point, PollRate, Side,
    Touch, Walk,
};
pub use record::{Outcome, Record, Values};

/// A point that can be measured: a kind with its parameters, and the numbers that tell repetitions
/// apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Spec {
    /// The subject and its parameters.
    #[serde(flatten)]
    pub kind: Point,
    /// Number among equal measurements.
    pub repetition: u32,
    /// Seed of everything random in it.
    pub seed: u64,
    /// Milliseconds of measuring, without preparation.
    pub duration_ms: u64,
}

/// Milliseconds of a point without a duration.
pub const DURATION_MS: u64 = 60;
/// Longest point: an hour.
const DURATION_LIMIT_MS: u64 = 3_600_000;

/// A spec that is wrong.
#[derive(Debug, thiserror::Error)]
#[error("point: {0}")]
pub struct SpecError(String);

impl Spec {
    /// A point of this kind, the first of its repetitions, with default seed and
    /// duration.
    pub fn new(kind: Point) -> Spec {
        Spec { kind, repetition: 0, seed: 1, duration_ms: DURATION_MS }
    }

    /// Reads a spec from JSON.
    ///
    /// # Errors
    ///
    /// When it is not JSON, lacks its kind, or has a field its kind has not.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        serde_json::from_str(text).map_err(|error| SpecError(error.to_string()))
    }

    /// The one way to write this spec: every parameter, also those left at their
    /// defaults, in the order of their names, without spaces.
    pub fn canonical(&self) -> String {
        // By way of a value, whose objects are sorted.
        let value = serde_json::to_value(self).expect("specs have names for keys");
        value.to_string()
    }

    /// The hash of the canonical form.
    pub fn key(&self) -> Key {
        Key::for_text(&self.canonical())
    }

    /// The command that measures it.
    pub fn command(&self) -> String {
        // Within single quotes a shell leaves everything but themselves alone.
        format!("linerate lab point '{}'", self.canonical().replace('\'', "'\\''"))
    }
}

impl<'de> Deserialize<'de> for Spec {
    /// By hand, because flattening would accept unknown fields.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Spec, D::Error> {
        let mut map = Map::<String, Value>::deserialize(deserializer)?;
        let mut number = |name: &str, default: u64, limit: u64| match map.remove(name) {
            None => Ok(default),
            Some(value) => value.as_u64().filter(|number| *number <= limit).ok_or_else(|| {
                D::Error::custom(format!("`{name}` is {value}: give a number of 0 to {limit}"))
            }),
        };
        let repetition = number("repetition", 0, u32::MAX.into())? as u32;
        let seed = number("seed", 1, u64::MAX)?;
        let duration_ms = number("duration_ms", DURATION_MS, DURATION_LIMIT_MS)?;
        let kind = Point::deserialize(Value::Object(map)).map_err(D::Error::custom)?;
        Ok(Spec { kind, repetition, seed, duration_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Spec::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn defaults_and_order_do_not_change_the_key() {
        let short = Spec::parse(r#"{"kind": "forward", "burst": 32}"#).unwrap();
        let long = Spec::parse(&short.canonical()).unwrap();
        assert_eq!(short, long);
        assert_eq!(short.key(), long.key());
        let turned = Spec::parse(r#"{"seed": 1, "burst": 32, "kind": "forward"}"#).unwrap();
        assert_eq!(turned.key(), short.key());
    }

    #[test]
    fn every_parameter_changes_the_key() {
        let keys: std::collections::BTreeSet<Key> = [
            r#"{"kind": "forward"}"#,
            r#"{"kind": "receive"}"#,
            r#"{"kind": "transmit"}"#,
            r#"{"kind": "forward", "burst": 64}"#,
            r#"{"kind": "forward", "repetition": 1}"#,
            r#"{"kind": "forward", "seed": 2}"#,
            r#"{"kind": "forward", "duration_ms": 61}"#,
        ]
        .iter()
        .map(|text| Spec::parse(text).unwrap().key())
        .collect();
        assert_eq!(keys.len(), 7);
    }

    #[test]
    fn errors_of_a_spec_are_named() {
        let unknown = error(r#"{"kind": "forward", "brust": 3}"#);
        assert!(unknown.contains("unknown field `brust`"), "{unknown}");
        assert!(unknown.contains("`burst`"), "{unknown}");
        assert!(error(r#"{"burst": 3}"#).contains("missing field `kind`"));
        assert!(error(r#"{"kind": "fly"}"#).contains("unknown variant `fly`"));
        assert!(error(r#"{"kind": "forward", "seed": -1}"#).contains("`seed` is -1"));
        assert!(error(r#"{"kind": "forward", "duration_ms": 3600001}"#).contains("0 to 3600000"));
        assert!(error("{").contains("EOF"));
    }

    #[test]
    fn the_command_survives_a_shell() {
        let graph = Graph { configuration: "Print('a')".into(), ..Graph::default() };
        let spec = Spec::new(Point::Graph(graph));
        assert!(spec.command().contains(r"Print('\''a'\'')"));
    }

    #[test]
    fn the_canonical_form_is_that_of_other_programs() {
        let walk = Walk { bytes: 1024, pages: Pages::Huge, chains: 2 };
        assert_eq!(
            Spec::new(Point::Walk(walk)).canonical(),
            r#"{"bytes":1024,"chains":2,"duration_ms":60,"kind":"walk","pages":"huge","repetition":0,"seed":1}"#
        );
    }
}
