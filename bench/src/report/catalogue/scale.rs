//! The experiment on numbers of processors.

use super::super::experiment::{Chart, Experiment, Lines};
use super::super::table::Table;
use super::servers::PEERS;
use super::{command, linear, logarithmic};

const fn scaled(title: &'static str, load: &'static [(&'static str, &'static str)]) -> Chart {
    Chart {
        title,
        rows: "/rows",
        only: load,
        lines: Lines::By { fields: &["server"], y: "cpu_us" },
        x: logarithmic("processors", "processors"),
        y: logarithmic("", "µs"),
    }
}

pub(super) const SCALE: Experiment = Experiment {
    name: "scale",
    title: "More processors",
    paper: None,
    about: "The web server with one popular file and with 1,000 files of equal popularity, the broker, and the example kv, each \
            with 1 to 32 processors, its threads bound to cores and not bound (nopin), beside peers with as many workers.",
    differs: "A request whose data another processor owns crosses to it and back. With more processors than cores, \
              processors wait for a core.",
    quick: command(
        16,
        &[
            "scale",
            "--part=web",
            "--only=phalanx,nginx-nosf",
            "--processors=1,2,8",
            "--rounds=1",
            "--slice=0.2",
        ],
    ),
    full: command(520, &["scale", "--slice", "0.3"]),
    peers: PEERS,
    tables: &[Table {
        title: "Servers by processors",
        rows: "/rows",
        columns: &[
            ("load", "load"),
            ("connections", "connections"),
            ("server", "server"),
            ("processors", "processors"),
            ("cpu_us", "µs each"),
            ("over_first", "over the fewest"),
            ("over_best_peer", "over the best peer"),
            ("per_s", "per second"),
            ("p99_us", "p99, µs"),
        ],
    }],
    picture: None,
    ratios: &[],
    charts: &[
        scaled("Processor time per request, one popular file", &[("load", "popular")]),
        scaled("Processor time per request, 1,000 files", &[("load", "unpopular")]),
        scaled("Processor time per message, one to one", &[("load", "pair")]),
        scaled("Processor time per message, one to a hundred", &[("load", "fan-out")]),
        scaled("Processor time per message, a hundred to one", &[("load", "fan-in")]),
        scaled("Processor time per message, shared subscription", &[("load", "shared")]),
        scaled("Processor time per message, 20,000 filters", &[("load", "filters")]),
        scaled("Processor time per GET of kv", &[("load", "get")]),
        Chart {
            title: "Requests per second, one popular file",
            rows: "/rows",
            only: &[("load", "popular")],
            lines: Lines::By { fields: &["server"], y: "per_s" },
            x: logarithmic("processors", "processors"),
            y: linear("", "requests per second"),
        },
        Chart {
            title: "99th percentile in closed loop, one popular file",
            rows: "/rows",
            only: &[("load", "popular")],
            lines: Lines::By { fields: &["server"], y: "p99_us" },
            x: logarithmic("processors", "processors"),
            y: logarithmic("", "µs"),
        },
    ],
};
