//! The example of a class's declaration, made to go on and on: it measures the cost of a class that
//! has no configuration for that.

use linerate_graph::{
    Class, Library, Plan, Processing, Role,
    lang::{self, Flat, Globals, Landmark, PortRef, SourceMap, Span},
};

use super::Failure;
use crate::{
    packet_trace,
    stand_in::{NO_LIMIT, has_limit, put_behind, replace_ports},
};

/// Class that makes packets beginning with their IP header, unlike those of ports.
const MAKES_IP: &str = "FromIPSummaryDump";

/// An example that can be run.
pub(super) struct Example {
    /// The library with the classes it needs.
    pub(super) library: Library,
    pub(super) plan: Plan,
    /// The element that is measured.
    pub(super) at: usize,
    /// Handlers to be written before, with their values.
    pub(super) writes: Vec<(String, String)>,
}

impl Example {
    /// The example of a class; `frames` is a port that brings packets over and over.
    pub(super) fn for_class(
        class: &Class,
        library: &Library,
        frames: &str,
    ) -> Result<Example, Failure> {
        if class.role == Role::Io {
            let reason = format!("what {} costs is what its port does", class.name);
            return Err(Failure::Unsupported(reason));
        }
        let library = packet_trace::with_own(library).map_err(Failure::unsupported)?;
        let mut sources = SourceMap::new();
        let file = sources.add("example", class.example);
        let mut none = |_: &str, _: &str| -> Result<_, Option<_>> { Err(None) };
        let globals = Globals::default();
        let (mut flat, found) = lang::load(&mut sources, file, &library, &globals, &mut none);
        if found.has_errors() {
            return Err(Failure::void(found.click()));
        }
        let checked = |flat: Flat| {
            let plan = Plan::new(flat, String::new(), &library);
            plan.map_err(|found| Failure::void(found.click()))
        };
        let written = checked(flat.clone())?;
        if let Some(at) = relative(&written, class) {
            flat.elements[at].class = class.name.into();
        }
        let replaced = replace_ports(&mut flat, &written, frames);
        for (element, replaced) in replaced.iter().enumerate() {
            if replaced.as_ref().is_some_and(|one| one.class == MAKES_IP) {
                put_behind(&mut flat, PortRef { element, port: 0 }, "Strip", "14");
            }
        }
        let idle = idle_sources(&checked(flat.clone())?);
        for at in idle {
            let element = &mut flat.elements[at];
            (element.class, element.config) = ("FromPort".into(), frames.into());
        }
        let span = Span { file, start: 0, end: 0 };
        let landmark = Landmark { span, file: "example".into(), line: 0 };
        flat.elements.push(packet_trace::run_timer(None, landmark));
        let plan = checked(flat)?;
        let at = plan.elements.iter().position(|element| element.class.name == class.name);
        let at = at.filter(|at| {
            let element = &plan.elements[*at];
            !(element.inputs.is_empty() && element.outputs.is_empty())
        });
        let at = at.ok_or_else(|| {
            Failure::Unsupported(format!(
                "no packets come to {}: it costs them nothing",
                class.name
            ))
        })?;
        let limited = plan.elements.iter().filter(|element| has_limit(element));
        let write = |name: &String| (format!("{name}.limit"), NO_LIMIT.to_string());
        let writes = limited.map(|element| write(&element.name)).collect();
        Ok(Example { library, plan, at, writes })
    }
}

/// The element that a class replaces in an example of another class of its file, as that of `Queue`
/// is of other queues, too.
fn relative(example: &Plan, class: &Class) -> Option<usize> {
    let mut elements = example.elements.iter();
    if elements.any(|element| element.class.name == class.name) {
        return None;
    }
    let is_like = |other: &Class| other.example == class.example && other.file == class.file;
    example.elements.iter().position(|element| is_like(element.class))
}

/// Elements that bring nothing, of an example in which nothing else brings packets.
fn idle_sources(plan: &Plan) -> Vec<usize> {
    let sources = plan.elements.iter().enumerate();
    let (idle, others): (Vec<_>, Vec<_>) = sources
        .filter(|(_, element)| element.inputs.is_empty() && !element.outputs.is_empty())
        .partition(|(_, element)| element.class.name == "Idle");
    if !others.is_empty() {
        return Vec::new();
    }
    let push = idle.into_iter().filter(|(_, element)| element.outputs == [Processing::Push]);
    push.map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_that_packets_come_to_has_one() {
        let library = linerate_elements::library();
        for class in library.iter().filter(|class| class.role != Role::Io) {
            match Example::for_class(class, &library, "null:") {
                Ok(example) => {
                    assert_eq!(example.plan.elements[example.at].class.name, class.name);
                }
                Err(Failure::Unsupported(reason)) => {
                    assert!(reason.contains("costs them nothing"), "{}: {reason}", class.name);
                    assert!(["0/0", "-/-"].contains(&class.ports), "{}", class.name);
                }
                Err(failure) => panic!("{}: {failure}", class.name),
            }
        }
    }

    #[test]
    fn sources_go_on_and_idle_ones_begin() {
        let library = linerate_elements::library();
        let of = |name: &str| {
            Example::for_class(library.find(name).unwrap(), &library, "null:").unwrap()
        };
        let limited = of("Truncate");
        assert_eq!(limited.writes.len(), 1);
        assert!(limited.writes[0].0.ends_with(".limit"), "{:?}", limited.writes);
        let queue = of("FullNoteQueue");
        assert_eq!(queue.plan.elements[queue.at].config, "16");
        let idle = of("IP6NDAdvertiser").plan;
        assert!(idle.elements.iter().any(|element| element.class.name == "FromPort"));
        assert!(idle.elements.iter().all(|element| element.class.name != "Idle"));
    }
}
