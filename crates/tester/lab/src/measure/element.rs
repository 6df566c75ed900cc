//! Cost of one class of element, in a small configuration that exercises it.

use std::time::Duration;

use linerate_graph::Library;
use linerate_port::Context;

use super::{
    Failure, arena,
    example::Example,
    graph::{Capture, Run, RunOptions, Windows, run, run_plan},
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
/// Number of runs of both.
const TURNS: usize = 4;
/// The name of the element that is measured.
const MEASURED: &str = "x";

pub(super) fn measure(library: &Library, point: &Element, spec: &Spec) -> Result<Values, Failure> {
    let frames = frames(Destinations::Uniform, ADDRESSES, 64, spec.seed).map_err(Failure::void)?;
    let capture = Capture::from_frames(&frames)?;
    let run_options = RunOptions {
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
            let RunOptions { vector, time, context } = run_options;
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
            let Example { library, plan, at, writes } =
                Example::for_class(class, library, &capture.uri)?;
            run_plan(&library, plan, at, run_options, &writes)?
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
        let time = Duration::from_millis(spec.duration_ms) / 2;
        let run_of = |configuration: &str| {
            let variables = vec![("FRAMES".into(), capture.uri.clone())];
            let (vector, context) = (point.vector, Context::new(arena(8192, 64)?));
            run(library, Run { configuration, variables, at: MEASURED, vector, time, context })
        };
        values.extend(engine(run_of)?);
    }
    Ok(values)
}

/// The engine's cost of a round and of calling one more element, for each packet, beyond the
/// account of the elements: readings of the counter take as long as a call, and hide it.
///
/// That is a small difference of large figures. Other load can only make each of them larger, so it
/// is the difference of the least of several runs, which take turns.
fn engine(run_of: impl Fn(&str) -> Result<Windows, Failure>) -> Result<Values, Failure> {
    let chains = [probes::chain(0), probes::chain(CALLS)];
    let mut least = [[f64::INFINITY; 3]; 2];
    for _ in 0..TURNS {
        for (configuration, least) in chains.iter().zip(&mut least) {
            let windows = run_of(configuration)?;
            let at = windows.at;
            let work = windows.per_packet(at, |usage| usage.work as f64);
            let figures = [work, windows.around(at), windows.own(at)];
            for (least, figure) in least.iter_mut().zip(figures) {
                *least = least.min(figure.ok_or_else(|| Failure::void("no packet came"))?);
            }
        }
    }
    let [[plain, around, _], [longer, _, own]] = least;
    let call = ((longer - plain) / CALLS as f64 - own).max(0.0);
    let round = (around - call).max(0.0);
    Ok(Values::from([(value::ENGINE.into(), call), (value::ROUND.into(), round)]))
}
