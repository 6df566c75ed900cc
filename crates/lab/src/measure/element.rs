//! What one class of element costs, in a small configuration that exercises it.

use std::time::Duration;

use linerate_graph::Library;
use linerate_port::Context;

use super::{
    Failure, arena,
    example::Example,
    graph::{Capture, How, Run, Windows, run, run_plan},
    probes,
};
use crate::{
    calibration::PLAIN,
    instruments::frames,
    point::{Destinations, Element, Spec, Values, value},
};

/// Addresses the traffic goes to.
const ADDRESSES: u32 = 4096;
/// Calls that are compared with none.
const CALLS: usize = 8;
/// The name of the element that is measured.
const MEASURED: &str = "x";

pub(super) fn measure(library: &Library, point: &Element, spec: &Spec) -> Result<Values, Failure> {
    let frames = frames(Destinations::Uniform, ADDRESSES, 64, spec.seed).map_err(Failure::void)?;
    let capture = Capture::of(&frames)?;
    let how = How {
        vector: point.vector,
        time: Duration::from_millis(spec.duration_ms),
        context: Context::new(arena(8192, 64)?),
    };
    let configuration = match &point.arguments {
        None => probes::configuration(&point.class),
        Some(arguments) => {
            library.find(&point.class).and_then(|class| probes::with_arguments(class, arguments))
        }
    };
    let windows = match configuration {
        Some(configuration) => {
            let How { vector, time, context } = how;
            let variables = vec![("FRAMES".into(), capture.uri.clone())];
            let configuration = &configuration;
            run(library, Run { configuration, variables, at: MEASURED, vector, time, context })?
        }
        None if point.arguments.is_none() => {
            let class = library.find(&point.class).ok_or_else(|| {
                let cases = probes::classes().filter(|name| name.contains(':'));
                let cases = cases.collect::<Vec<_>>().join(", ");
                let class = &point.class;
                Failure::Unsupported(format!("there is no class {class}; cases are {cases}"))
            })?;
            let Example { library, plan, at, writes } = Example::of(class, library, &capture.uri)?;
            run_plan(&library, plan, at, how, &writes)?
        }
        None => {
            let reason = format!("{} cannot be measured with arguments of its own", point.class);
            return Err(Failure::Unsupported(reason));
        }
    };
    let x = windows.at;
    let nothing = || Failure::void("no packet came to the element");
    let cycles = windows.own(x).ok_or_else(nothing)?;
    let vector = windows.mean_vector(x);
    let mut values = Values::from([
        (value::CYCLES.into(), cycles),
        ("cycles_per_frame".into(), cycles * vector),
        (value::VECTOR.into(), vector),
        // Of timers there is none in most windows.
        ("packets_per_s".into(), windows.rate(x).unwrap_or(0.0)),
    ]);
    if point.class == PLAIN {
        let more = Run {
            configuration: &probes::chain(CALLS),
            variables: vec![("FRAMES".into(), capture.uri)],
            at: MEASURED,
            vector: point.vector,
            time: Duration::from_millis(spec.duration_ms),
            context: Context::new(arena(8192, 64)?),
        };
        let longer = run(library, more)?;
        values.extend(engine(&windows, &longer).into_iter().flatten());
    }
    Ok(values)
}

/// What the engine takes for a round and to call one more element, for each packet, beyond what the
/// account says that elements take: readings of the counter take as long as a call, and hide it.
fn engine(plain: &Windows, longer: &Windows) -> Option<[(String, f64); 2]> {
    let work = |windows: &Windows| windows.per_packet(windows.at, |usage| usage.work as f64);
    let more = (work(longer)? - work(plain)?) / CALLS as f64;
    let call = (more - longer.own(longer.at)?).max(0.0);
    let round = (plain.around(plain.at)? - call).max(0.0);
    Some([(value::ENGINE.into(), call), (value::ROUND.into(), round)])
}
