//! The layers of the modules of each crate, checked by [`super::module_imports`].

/// The modules directly under a crate's `src`, or under one of its folders, in layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layers {
    /// The crate's folder, or a folder of its modules, from the workspace root.
    pub(super) folder: &'static str,
    /// The layers, the lowest first. Each lists root files (without `.rs`) and folders (with their subfolders) that
    /// may import each other.
    pub(super) layers: &'static [&'static [&'static str]],
    /// Imports from a higher layer that are allowed.
    pub(super) exceptions: &'static [Exception],
}

/// A file that may name items of one higher layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exception {
    /// The importing file, from the workspace root.
    pub(super) file: &'static str,
    /// The higher module.
    pub(super) target: &'static str,
    /// Why the import cannot be removed.
    pub(super) reason: &'static str,
}

/// Maximum number of exceptions in one crate.
pub(super) const MAX_EXCEPTIONS: usize = 5;

/// The crates with layers.
pub(super) const CRATES: &[Layers] = &[
    Layers {
        folder: "crates/core",
        layers: &[
            &["brief", "error", "gate", "open_scopes", "panic", "stage_set", "sync", "world"],
            &["control"],
            &["queue"],
            &["operation"],
            &["state"],
            &["memory"],
            &["mailbox"],
            &["session"],
            &["metrics"],
            &["stage"],
            &["program"],
            &["processor"],
            &["request"],
            &["future"],
            &["handle"],
            &["calls", "sim", "waits"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "bench",
        layers: &[
            &["arguments", "error"],
            &["system"],
            &["measure"],
            &["experiment"],
            &["baselines", "load"],
            &["runner"],
            &["experiments"],
            &["report"],
            &["cli"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/access",
        layers: &[
            &["check_queue", "error", "memory_pool", "subject"],
            &["htpasswd", "http", "pattern", "token"],
            &["jwt", "scram", "stored_hash", "users"],
            &["passwd", "passwords", "rules"],
            &["parse"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/broker",
        layers: &[
            &["cluster_names", "listen", "lock"],
            &["events"],
            &["config"],
            &["access", "limits"],
            &["model"],
            &["content"],
            &["peers"],
            &["counters", "requests"],
            &["durable"],
            &["session"],
            &["routing"],
            &["lane", "link"],
            &["transport"],
            &["kept"],
            &["context"],
            &["connection"],
            &["bridge", "cluster"],
            &["admin"],
            &["serve"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/broker/src/cluster",
        layers: &[
            &["ending", "guard", "intervals"],
            &["peer_node"],
            &["node"],
            &["adoption", "session_query", "takeover"],
            &["moving"],
            &["find", "serving"],
            &["incoming", "lane_check"],
            &["run"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/broker/src/connection",
        layers: &[
            &["end"],
            &["auth_packet", "logging"],
            &["batch"],
            &["client"],
            &["packets"],
            &["connect"],
            &["reader"],
            &["bridged"],
            &["accept"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/broker/src/session",
        layers: &[&["state"], &["partition"], &["operations"]],
        exceptions: &[],
    },
    Layers {
        folder: "crates/cli",
        layers: &[
            &["admin", "files", "passwd", "status", "stdout", "stingy", "threads", "units"],
            &["client", "import", "manual", "options", "profile", "server", "service", "top"],
            &["broker", "web"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/config",
        layers: &[
            &["error", "units"],
            &["value"],
            &["declaration"],
            &["pass", "reader"],
            &["difference", "reference", "settings"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/guard",
        layers: &[
            &["addresses", "failures", "networks", "proxy_protocol"],
            &["forwarded", "logins"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/http",
        layers: &[
            &["limits", "mime", "status", "syntax", "version"],
            &["reject", "path"],
            &["request"],
            &["negotiate"],
            &["response"],
            &["access", "client"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/matcher",
        layers: &[
            &["docs", "limits", "number"],
            &["value"],
            &["constant", "language"],
            &["condition"],
            &["normal"],
            &["filter"],
            &["index", "simd"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/mqtt",
        layers: &[
            &["reason", "version"],
            &["error"],
            &["topic", "wire"],
            &["frame"],
            &["properties"],
            &["packet"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/phalanx",
        layers: &[
            &[
                "docs",
                "embed",
                "lock",
                "machine",
                "metrics",
                "nanoseconds",
                "overload",
                "stage",
                "sync",
                "task",
            ],
            &["cores"],
            &["program"],
            &["blocking", "io"],
            &["diagnostics", "fs", "shutdown", "time"],
            &["foreign", "net"],
            &["fibre", "scaling"],
            &["admin", "supervisor"],
            &["worker"],
            &["runtime"],
            &["attributes", "sim"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/service",
        layers: &[
            &["address", "connection_limit", "sighup", "workers"],
            &["listen"],
            &["runtime"],
            &["descriptors", "listeners"],
            &["operator"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/store",
        layers: &[
            &["error", "options"],
            &["format"],
            &["directory"],
            &["index"],
            &["recovery"],
            &["mirror"],
            &["write"],
            &["status"],
            &["journal"],
            &["store"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/testkit",
        layers: &[&["allocations", "driver", "files", "steps", "wait"], &["clients"], &["servers"]],
        exceptions: &[],
    },
    Layers {
        folder: "crates/threads",
        layers: &[
            &["limits", "options"],
            &["system"],
            &["inherited", "thread"],
            &["stats"],
            &["schedule"],
            &["waiting"],
            &["readiness"],
            &["carriers"],
            &["admin"],
            &["lifecycle"],
            &["calls"],
            &["fork"],
            &["preload"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/tls",
        layers: &[&["certificates"], &["stream"], &["handshake", "outgoing"]],
        exceptions: &[],
    },
    Layers {
        folder: "crates/nats",
        layers: &[
            &["address", "codec", "subject"],
            &["options"],
            &["login"],
            &["client", "model"],
            &["jetstream"],
            &["survey"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/acme",
        layers: &[
            &["metrics", "schedule", "transport"],
            &["storage"],
            &["plan"],
            &["challenges"],
            &["order", "shared"],
            &["account", "job"],
            &["plan_task"],
            &["manager"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/web",
        layers: &[
            &["clock", "config", "listing"],
            &["auth", "log"],
            &["error", "floods", "memory", "metrics", "upstream"],
            &["site"],
            &["check"],
            &["files"],
            &["stages"],
            &["socket"],
            &["respond"],
            &["proxy"],
            &["streams"],
            &["http2", "http3"],
            &["http1"],
            &["conn"],
            &["serve"],
        ],
        exceptions: &[],
    },
    Layers {
        folder: "crates/websocket",
        layers: &[&["code", "upgrade"], &["encoder"], &["decoder"]],
        exceptions: &[],
    },
];
