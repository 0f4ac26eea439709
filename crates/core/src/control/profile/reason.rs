//! The reasons for decisions.

/// The reason why the guide chose a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuideReason {
    /// Nothing changed.
    Steady,
    /// No mix resembles the traffic.
    Unknown,
    /// The traffic resembles a mix.
    Recognised,
    /// A processor is saturated.
    Saturated,
    /// A comparison needs this setting.
    Trial,
    /// The compared setting is better.
    Kept,
    /// The compared setting, or the profile's choice, is not better.
    Undone,
    /// The traffic changed during a comparison.
    Invalid,
    /// There is too little traffic, and fewer processors are enough for its load.
    Idle,
    /// There is traffic again. The setting before [`Idle`](Self::Idle) applies until the traffic is recognised.
    Resumed,
}

impl GuideReason {
    /// The reason as one lower-case word.
    pub fn as_str(self) -> &'static str {
        match self {
            GuideReason::Steady => "steady",
            GuideReason::Unknown => "unknown",
            GuideReason::Recognised => "recognised",
            GuideReason::Saturated => "saturated",
            GuideReason::Trial => "trial",
            GuideReason::Kept => "kept",
            GuideReason::Undone => "undone",
            GuideReason::Invalid => "invalid",
            GuideReason::Idle => "idle",
            GuideReason::Resumed => "resumed",
        }
    }
}
