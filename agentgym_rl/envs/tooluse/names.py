"""Given and family names of invented people."""

from __future__ import annotations


def split(text: str, separator: str = " ") -> tuple[str, ...]:
    """The parts of a text over several lines, each freed of the spaces around it."""
    return tuple(part.strip() for part in " ".join(text.split()).split(separator))


GIVEN = split(
    """
    Ada Akira Amara Anton Bea Boris Bruno Carla Chidi Clara Dario Dina Edda Elio Emre Esme Farah Felix Freya Gita
    Goran Greta Hana Hugo Ida Igor Ines Ivo Jana Jonas Joy Kaito Karim Kira Lars Leila Leo Lior Luz Mads Maeve Marco
    Mina Nadia Nils Noor Olga Omar Otto Paola Petra Priya Quinn Rafael Rana Rosa Ruben Sana Selma Sven Tamar Tariq
    Tess Tomas Uma Vera Viktor Wanda Xenia Yara Yusuf Zane Zora
    """
)
FAMILY = split(
    """
    Abara Adler Almeida Arslan Banks Baptiste Barlow Bauer Benoit Berg Bianchi Blom Borges Brandt Calder Castell Cho
    Corrigan Costa Dahl Delgado Devlin Dumont Eklund Engel Farrow Ferrara Fink Fontaine Frost Gallo Garnier Ghosh
    Grieve Gruber Hale Hansen Harlow Hayashi Holt Horvath Iqbal Ivers Jansen Joshi Kane Kaplan Keller Kimura Kovac
    Kruger Lang Larkin Leclerc Lindt Lopes Lund Maddox Mancini Marsh Mehta Mercer Moreau Morita Nagy Nash Navarro
    Novak Nwosu Oakes Okada Olsen Orlov Osei Pace Palmer Park Pavlov Pereira Petit Quist Rahman Rao Reyes Ricci Rowe
    Rossi Sato Schultz Serrano Shaw Silva Sokol Stark Stein Suarez Tanaka Thorne Toth Ueda Urban Valdez Varga Vega
    Vogel Wade Weiss Wolff Yates Yilmaz Zeller Ziegler
    """
)
