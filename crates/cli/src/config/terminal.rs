//! `[terminal]` of the configuration file: the full-screen interface.

use anyhow::Context;
use baton_tui::theme::Theme;
use serde::Deserialize;

use super::show::TableRows;

/// The `[terminal]` table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TerminalTable {
    theme: Option<String>,
    mouse: Option<bool>,
}

impl TerminalTable {
    /// Adds the values in force to those that `baton config` shows.
    pub(super) fn show(&self, mut rows: TableRows<'_>) {
        let Self { theme, mouse } = self;
        rows.add("theme", theme.as_deref(), &Theme::default().name());
        rows.add("mouse", *mouse, &true);
    }

    /// Returns the colours: those that are set, or the terminal's own.
    pub(crate) fn theme(&self) -> anyhow::Result<Option<Theme>> {
        let named = |name: &String| {
            let names = Theme::ALL.map(Theme::name).join(", ");
            Theme::named(name).with_context(|| format!("terminal.theme = {name:?} is none of {names}"))
        };
        self.theme.as_ref().map(named).transpose()
    }

    /// Whether the interface uses the mouse: the wheel, at the price of the terminal's own selection, which then needs Shift.
    pub(crate) fn mouse(&self) -> bool {
        self.mouse.unwrap_or(true)
    }
}
