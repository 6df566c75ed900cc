//! What one class of element costs, in a small configuration that exercises it.

use std::time::Duration;

use linerate_graph::Library;
use linerate_port::Context;

use super::{
    Failure, arena,
    graph::{Capture, Run, run},
    probes,
};
use crate::{
    instruments::frames,
    point::{Destinations, Element, Spec, Values, value},
};

/// Addresses the traffic goes to.
const ADDRESSES: u32 = 4096;
/// The name of the element that is measured.
const MEASURED: &str = "x";

pub(super) fn measure(library: &Library, point: &Element, spec: &Spec) -> Result<Values, Failure> {
    let configuration = match &point.arguments {
        None => probes::configuration(&point.class),
        Some(arguments) => {
            library.find(&point.class).and_then(|class| probes::with_arguments(class, arguments))
        }
    };
    let configuration = configuration.ok_or_else(|| {
        let own = if point.arguments.is_some() { " with arguments of its own" } else { "" };
        Failure::Unsupported(format!(
            "no small configuration for {}{own}: there are some for {}",
            point.class,
            probes::classes().collect::<Vec<_>>().join(", ")
        ))
    })?;
    let frames = frames(Destinations::Uniform, ADDRESSES, 64, spec.seed).map_err(Failure::void)?;
    let capture = Capture::of(&frames)?;
    let probe = Run {
        configuration: &configuration,
        variables: vec![("FRAMES".into(), capture.uri.clone())],
        at: MEASURED,
        vector: point.vector,
        time: Duration::from_millis(spec.duration_ms),
        context: Context::new(arena(8192, 64)?),
    };
    let windows = run(library, probe)?;
    let x = windows.at;
    let nothing = || Failure::void("no packet came to the element");
    let cycles = windows.per_packet(x, |usage| usage.elements[x].cycles).ok_or_else(nothing)?;
    let vector = windows.mean_vector(x);
    let engine = windows.per_packet(x, |usage| usage.engine).unwrap_or(0.0);
    Ok(Values::from([
        (value::CYCLES.into(), cycles),
        ("cycles_per_frame".into(), cycles * vector),
        (value::VECTOR.into(), vector),
        ("engine_cycles_per_packet".into(), engine),
        ("packets_per_s".into(), windows.rate(x).ok_or_else(nothing)?),
    ]))
}
