//! Output of the call graph for Graphviz.

use std::fmt::Write;

use crate::calls::graph::CallGraph;

impl CallGraph {
    /// The graph in Graphviz's DOT language, for `dot -Tsvg`. Edges of declared calls are solid. Edges of undeclared
    /// calls are dashed, and red if the stage declares its calls. Observed calls are labelled with the number of
    /// invocations. Stages in [cycles](Self::cycles) are orange.
    ///
    /// ```
    /// let mut graph = phalanx_core::Graph::new();
    /// let (parse, answer) = (graph.shared("parse", ()), graph.shared("answer", ()));
    /// graph.calls(parse, answer);
    /// assert!(graph.call_graph().dot().contains("\"parse\" -> \"answer\""));
    /// ```
    pub fn dot(&self) -> String {
        let cycles = self.cycles();
        let mut out =
            String::from("digraph calls {\n  node [shape=box, fontname=\"sans-serif\"];\n");
        out.push_str("  edge [fontname=\"sans-serif\", fontsize=10];\n");
        for stage in &self.stages {
            let in_cycle = cycles.iter().any(|cycle| cycle.stages.contains(stage));
            let bound = match (stage.is_serial, stage.capacity) {
                (true, _) => "\\none cohort at a time".to_owned(),
                (false, Some(capacity)) => format!("\\ncapacity {capacity}"),
                (false, None) => String::new(),
            };
            let name = escaped(stage.name);
            let color = if in_cycle { ", style=filled, fillcolor=orange" } else { "" };
            let _ = writeln!(out, "  \"{name}\" [label=\"{name}{bound}\"{color}];");
        }
        for call in &self.calls {
            let from = call.from.map_or("outside", |from| self.stages[from].name);
            let style = if call.is_declared { "solid" } else { "dashed" };
            let color = if self.is_undeclared(call) { ", color=red" } else { "" };
            let label = match call.observed {
                0 => String::new(),
                count => format!(", label=\"{count}\""),
            };
            let (from, to) = (escaped(from), escaped(self.stages[call.to].name));
            let _ = writeln!(out, "  \"{from}\" -> \"{to}\" [style={style}{color}{label}];");
        }
        for cycle in cycles {
            let _ = writeln!(out, "  // cycle: {cycle}");
        }
        out.push_str("}\n");
        out
    }
}

fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ")
}
