//! Colours and styles by what they mean.

use baton_markup::highlight::Class;
use ratatui::style::{Color, Modifier, Style};

/// Name of a theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Theme {
    /// The terminal's own sixteen colours, which suit its background.
    #[default]
    Terminal,
    /// For dark backgrounds.
    Dark,
    /// For light backgrounds.
    Light,
    /// Without colours.
    Plain,
}

/// What a piece of the screen is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "named by what they are")]
pub enum Role {
    Text,
    Dim,
    Accent,
    Good,
    Bad,
    Warning,
    Prompt,
    Heading,
    Code,
    Added,
    AddedWord,
    Removed,
    RemovedWord,
    Selected,
    Bar,
    Asking,
}

impl Theme {
    /// All themes, in the order of the picker.
    pub const ALL: [Self; 4] = [Self::Terminal, Self::Dark, Self::Light, Self::Plain];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Dark => "dark",
            Self::Light => "light",
            Self::Plain => "plain",
        }
    }

    /// Finds a theme by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.name() == name)
    }

    /// Returns the style of a role.
    #[must_use]
    pub fn style(self, role: Role) -> Style {
        let plain = Style::new();
        match self {
            Self::Plain => match role {
                Role::Heading | Role::Accent | Role::Asking | Role::Prompt => {
                    plain.add_modifier(Modifier::BOLD)
                }
                Role::Selected => plain.add_modifier(Modifier::REVERSED),
                Role::AddedWord | Role::RemovedWord => plain.add_modifier(Modifier::UNDERLINED),
                Role::Dim | Role::Bar => plain.add_modifier(Modifier::DIM),
                _ => plain,
            },
            Self::Terminal => match role {
                Role::Text => plain,
                Role::Dim | Role::Bar => plain.add_modifier(Modifier::DIM),
                Role::Accent => plain.fg(Color::Cyan),
                Role::Good | Role::Added => plain.fg(Color::Green),
                Role::Bad | Role::Removed => plain.fg(Color::Red),
                Role::Warning => plain.fg(Color::Yellow),
                Role::Prompt => plain.fg(Color::Cyan).add_modifier(Modifier::BOLD),
                Role::Heading => plain.add_modifier(Modifier::BOLD),
                Role::Code => plain.fg(Color::Cyan),
                Role::AddedWord => plain.fg(Color::Green).add_modifier(Modifier::REVERSED),
                Role::RemovedWord => plain.fg(Color::Red).add_modifier(Modifier::REVERSED),
                Role::Selected => plain.add_modifier(Modifier::REVERSED),
                Role::Asking => plain.fg(Color::Yellow).add_modifier(Modifier::BOLD),
            },
            Self::Dark => coloured(role, &DARK),
            Self::Light => coloured(role, &LIGHT),
        }
    }

    /// Returns the style of a piece of code.
    #[must_use]
    pub fn code(self, class: Class) -> Style {
        let plain = Style::new();
        let colours = match self {
            Self::Plain => return plain,
            Self::Terminal => {
                return match class {
                    Class::Plain => plain,
                    Class::Comment => plain.add_modifier(Modifier::DIM),
                    Class::Text => plain.fg(Color::Green),
                    Class::Constant => plain.fg(Color::Yellow),
                    Class::Keyword => plain.fg(Color::Magenta),
                    Class::Function => plain.fg(Color::Blue),
                    Class::Type => plain.fg(Color::Cyan),
                };
            }
            Self::Dark => &DARK,
            Self::Light => &LIGHT,
        };
        match class {
            Class::Plain => plain,
            Class::Comment => plain.fg(colours.dim),
            Class::Text => plain.fg(colours.good),
            Class::Constant => plain.fg(colours.warning),
            Class::Keyword => plain.fg(colours.keyword),
            Class::Function => plain.fg(colours.function),
            Class::Type => plain.fg(colours.accent),
        }
    }
}

struct Colours {
    dim: Color,
    accent: Color,
    good: Color,
    bad: Color,
    warning: Color,
    keyword: Color,
    function: Color,
    added: Color,
    added_word: Color,
    removed: Color,
    removed_word: Color,
    selected: Color,
}

const DARK: Colours = Colours {
    dim: Color::Rgb(138, 143, 152),
    accent: Color::Rgb(86, 182, 194),
    good: Color::Rgb(152, 195, 121),
    bad: Color::Rgb(224, 108, 117),
    warning: Color::Rgb(229, 192, 123),
    keyword: Color::Rgb(198, 120, 221),
    function: Color::Rgb(97, 175, 239),
    added: Color::Rgb(30, 52, 36),
    added_word: Color::Rgb(44, 92, 56),
    removed: Color::Rgb(60, 32, 36),
    removed_word: Color::Rgb(112, 44, 52),
    selected: Color::Rgb(58, 64, 76),
};

const LIGHT: Colours = Colours {
    dim: Color::Rgb(96, 100, 108),
    accent: Color::Rgb(0, 105, 125),
    good: Color::Rgb(32, 110, 45),
    bad: Color::Rgb(176, 32, 48),
    warning: Color::Rgb(138, 92, 0),
    keyword: Color::Rgb(130, 40, 150),
    function: Color::Rgb(20, 80, 170),
    added: Color::Rgb(222, 246, 226),
    added_word: Color::Rgb(170, 226, 180),
    removed: Color::Rgb(255, 229, 231),
    removed_word: Color::Rgb(250, 188, 194),
    selected: Color::Rgb(208, 216, 230),
};

fn coloured(role: Role, colours: &Colours) -> Style {
    let plain = Style::new();
    match role {
        Role::Text => plain,
        Role::Dim | Role::Bar => plain.fg(colours.dim),
        Role::Accent | Role::Code => plain.fg(colours.accent),
        Role::Good => plain.fg(colours.good),
        Role::Bad => plain.fg(colours.bad),
        Role::Warning => plain.fg(colours.warning),
        Role::Prompt => plain.fg(colours.accent).add_modifier(Modifier::BOLD),
        Role::Heading => plain.add_modifier(Modifier::BOLD),
        Role::Added => plain.bg(colours.added),
        Role::AddedWord => plain.bg(colours.added_word),
        Role::Removed => plain.bg(colours.removed),
        Role::RemovedWord => plain.bg(colours.removed_word),
        Role::Selected => plain.bg(colours.selected),
        Role::Asking => plain.fg(colours.warning).add_modifier(Modifier::BOLD),
    }
}
