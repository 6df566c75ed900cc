//! Isolated programs of a plan, with memory of their own, known before the graph is made.

use linerate_cluster::Access;
use linerate_graph::{Plan, parse_integer, unquoted};
use linerate_memory::shared::CELLS_MAX;

use super::{from_consumer, inline, sharing};

/// Arguments of elements about one name.
struct NameArguments {
    name: String,
    access: Access,
    /// Most packets it is lent, and most empty buffers, by the last element that sets them.
    cells: Option<u32>,
    spare: u32,
}

/// Returns the programs of a plan that are isolated, and most buffers that each holds. Invalid
/// arguments are reported by their elements, and are ignored here.
pub fn isolated_programs(plan: &Plan) -> Vec<(String, u32)> {
    let mut programs: Vec<NameArguments> = Vec::new();
    for element in 0..plan.elements.len() {
        for said in said_by(plan, element) {
            match programs.iter_mut().find(|known| known.name == said.name) {
                Some(known) => {
                    known.access = known.access.stricter(said.access);
                    known.cells = said.cells.or(known.cells);
                    if said.cells.is_none() {
                        known.spare = said.spare;
                    }
                }
                None => programs.push(said),
            }
        }
    }
    let isolated = programs.into_iter().filter(|program| program.access == Access::Isolated);
    let most = |cells: Option<u32>, spare| cells.unwrap_or(1).saturating_add(spare).min(CELLS_MAX);
    isolated.map(|NameArguments { name, cells, spare, .. }| (name, most(cells, spare))).collect()
}

fn said_by(plan: &Plan, element: usize) -> Vec<NameArguments> {
    let class = &plan.elements[element].class;
    let text = |name: &str| {
        let default = class.args.iter().find(|arg| arg.name == name).map_or("", |arg| arg.default);
        plan.argument(element, name).map_or_else(|| default.into(), |text| unquoted(&text))
    };
    let number = |name: &str| u32::try_from(parse_integer(&text(name)).unwrap_or(0)).unwrap_or(0);
    let sends = [sharing::TO_CONSUMER.name, inline::CLASS.name].contains(&class.name);
    let shares = [sharing::BALANCER.name, sharing::FAN_OUT.name].contains(&class.name);
    let receives = class.name == from_consumer::CLASS.name;
    if !sends && !shares && !receives {
        return Vec::new();
    }
    let granted = match text("ACCESS").as_str() {
        "isolated" => Access::Isolated,
        "write" => Access::Write,
        _ => Access::Read,
    };
    let names: Vec<String> = if shares {
        let rest = plan.rest(element);
        let names = rest.iter().flat_map(|text| sharing::names(&unquoted(text)));
        names.collect()
    } else {
        vec![text("NAME")]
    };
    let apart = plan.argument(element, "ISOLATED").map(|text| unquoted(&text)).unwrap_or_default();
    let said = |name: String| {
        let is_apart = apart.split_whitespace().any(|of| of == name);
        let access = if is_apart { Access::Isolated } else { granted };
        let cells = (!receives).then(|| number("CELLS"));
        NameArguments { name, access, cells, spare: if receives { number("SPARE") } else { 0 } }
    };
    names.into_iter().map(said).collect()
}
