"""The phrasebook's words: nouns, adjectives, verbs, times, pronoun frames and names, as tables that may be added to.

To add a noun, adjective, verb or time, add one line to its table; the legend above each table says what the columns
mean. Words go by meaning through tags: a verb or an adjective lists the tags (or single nouns) that it goes with, and
behind "-" the single nouns that it does not, so a new noun with the right tags is used everywhere at once. An English
word may stand for one German word only, and words
whose German depends on something the sentence does not say ("you", "teacher" as a bare subject) stay out: every
English sentence must have exactly one right translation. Any change gives the corpus another version by itself.
"""

from typing import NamedTuple


class Noun(NamedTuple):
  """A noun in both languages."""

  english: str
  english_plural: str
  german: str  # nominative singular
  german_plural: str  # nominative plural
  gender: str  # 'm', 'f' or 'n'
  weak: bool  # the Bär, den Bären kind: every singular form but the nominative looks like the plural
  tags: frozenset[str]  # what it is good for; holds the English word itself, too


class Adjective(NamedTuple):
  """An adjective in both languages."""

  english: str
  english_comparative: str  # '' where we do not compare
  german: str  # as a predicate: "ist müde"
  german_comparative: str
  stem: str  # before an ending: "der müd-e Hund"
  tags: frozenset[str]  # nouns that it fits
  framed: frozenset[str]  # nouns that it fits in a frame of pronoun pairs: these, and perhaps more


class Verb(NamedTuple):
  """A verb in both languages, in one use (one frame)."""

  english: str  # base form, without particle or preposition
  past: str
  progressive: str  # '' for verbs that have no "is …ing now"
  particle: str  # "up" of "pick up": an object pronoun stands before it
  preposition: str  # "for" of "wait for": the object stands behind it
  infinitive: str  # "anrufen"
  prefix: str  # separable: "an", or ''
  third: str  # "er ruft", without the prefix
  participle: str
  auxiliary: str  # of the perfect: 'haben' or 'sein'
  subjects: frozenset[str]  # tags
  government: str  # '' (no object), 'accusative', 'dative', 'both' (dative person and accusative thing)
  german_preposition: str  # "auf" of "warten auf", or ''
  objects: frozenset[str]  # tags

  @property
  def name(self) -> str:
    """The dictionary form in English, "pick up"."""
    return ' '.join(part for part in (self.english, self.particle, self.preposition) if part)


class Role(NamedTuple):
  """What a person can be: the German word depends on whether it is he or she."""

  english: str
  english_plural: str
  masculine: Noun
  feminine: Noun


class Time(NamedTuple):
  """When: an adverb or a phrase."""

  english: str
  german: str
  tenses: frozenset[str]
  long: bool  # too long a time for what takes a moment
  middle: bool  # in English it stands before the main verb: "often"


class Frame(NamedTuple):
  """A sentence in which "it" can be either noun, and the adjective decides: (verb, negated, adjective) -> which."""

  verb: str
  negated: bool
  subjects: frozenset[str]
  objects: frozenset[str]
  of_subject: tuple[str, ...]  # adjectives that can only be said of the subject here
  of_object: tuple[str, ...]
  held_out: frozenset[str]  # those of the adjectives that only the test has in this frame

  @property
  def name(self) -> str:
    """The verb, with "not" where it is negated."""
    return f'not {self.verb}' if self.negated else self.verb


def _rows(table: str) -> list[list[str]]:
  """The cells of a table's lines; blank lines and comments are skipped."""
  lines = (line.split('#')[0].strip() for line in table.splitlines())
  return [[cell.strip() for cell in line.split('|')] for line in lines if line]


def _list(cell: str) -> list[str]:
  return [part.strip() for part in cell.split(',')]


# English singular, plural | German singular, plural | gender, "weak" where declined like "den Bären" | tags
# person: may do what people do.   gendered: grammatical gender = sex, so that he/she/his/her is never in doubt.
# kin: stands with "my", "her", "Anna's".   one: of which one has one only.   pet: may belong to somebody.
# thing: anything lifeless that is not eaten.   packed, screen: may fit into, or hide, something.   luggage: is carried.
# feared: by other animals.   colored: of any color.   priced: bought at very different prices.   prey: is hunted by all of them.   eater: eats what people eat.
_NOUNS = """
man, men | Mann, Männer | m | person gendered
woman, women | Frau, Frauen | f | person gendered
boy, boys | Junge, Jungen | m weak | person gendered
girl, girls | Mädchen, Mädchen | n | person
child, children | Kind, Kinder | n | person
king, kings | König, Könige | m | person gendered
queen, queens | Königin, Königinnen | f | person gendered
prince, princes | Prinz, Prinzen | m weak | person gendered
princess, princesses | Prinzessin, Prinzessinnen | f | person gendered
waiter, waiters | Kellner, Kellner | m | person gendered
waitress, waitresses | Kellnerin, Kellnerinnen | f | person gendered
actor, actors | Schauspieler, Schauspieler | m | person gendered
actress, actresses | Schauspielerin, Schauspielerinnen | f | person gendered
father, fathers | Vater, Väter | m | person gendered kin one
mother, mothers | Mutter, Mütter | f | person gendered kin one
brother, brothers | Bruder, Brüder | m | person gendered kin
sister, sisters | Schwester, Schwestern | f | person gendered kin
son, sons | Sohn, Söhne | m | person gendered kin
daughter, daughters | Tochter, Töchter | f | person gendered kin
uncle, uncles | Onkel, Onkel | m | person gendered kin
aunt, aunts | Tante, Tanten | f | person gendered kin
grandfather, grandfathers | Großvater, Großväter | m | person gendered kin
grandmother, grandmothers | Großmutter, Großmütter | f | person gendered kin

dog, dogs | Hund, Hunde | m | animal pet jumper hunter puller eater feared
wolf, wolves | Wolf, Wölfe | m | animal jumper hunter feared
bear, bears | Bär, Bären | m weak | animal hunter eater feared
donkey, donkeys | Esel, Esel | m | animal pet jumper puller carrier kicker eater
lion, lions | Löwe, Löwen | m weak | animal jumper hunter feared
monkey, monkeys | Affe, Affen | m weak | animal jumper eater
bird, birds | Vogel, Vögel | m | animal pet prey eater
cat, cats | Katze, Katzen | f | animal pet jumper hunter prey
mouse, mice | Maus, Mäuse | f | animal prey eater
cow, cows | Kuh, Kühe | f | animal pet puller kicker eater feared
goat, goats | Ziege, Ziegen | f | animal pet jumper puller carrier kicker eater
duck, ducks | Ente, Enten | f | animal pet prey eater
snake, snakes | Schlange, Schlangen | f | animal hunter feared
horse, horses | Pferd, Pferde | n | animal pet jumper puller carrier kicker eater feared
pig, pigs | Schwein, Schweine | n | animal pet eater
animal, animals | Tier, Tiere | n | animal creature jumper hunter puller carrier eater feared
rabbit, rabbits | Kaninchen, Kaninchen | n | animal pet jumper prey eater
camel, camels | Kamel, Kamele | n | animal puller carrier kicker eater feared
crocodile, crocodiles | Krokodil, Krokodile | n | animal hunter feared

ball, balls | Ball, Bälle | m | thing small packed colored
key, keys | Schlüssel, Schlüssel | m | thing small lying
ring, rings | Ring, Ringe | m | thing small lying priced
letter, letters | Brief, Briefe | m | thing small lying readable
suitcase, suitcases | Koffer, Koffer | m | thing container openable standing colored priced luggage
backpack, backpacks | Rucksack, Rucksäcke | m | thing container colored priced luggage
basket, baskets | Korb, Körbe | m | thing container standing luggage
umbrella, umbrellas | Regenschirm, Regenschirme | m | thing small lying colored priced
hat, hats | Hut, Hüte | m | thing small clothing lying colored priced
coat, coats | Mantel, Mäntel | m | thing clothing colored priced
television, televisions | Fernseher, Fernseher | m | thing device standing packed screen priced
computer, computers | Computer, Computer | m | thing device standing priced
mirror, mirrors | Spiegel, Spiegel | m | thing fragile hanging packed screen priced
curtain, curtains | Vorhang, Vorhänge | m | thing hanging screen colored
table, tables | Tisch, Tische | m | thing furniture surface leaped priced
chair, chairs | Stuhl, Stühle | m | thing furniture surface standing colored priced
cupboard, cupboards | Schrank, Schränke | m | thing furniture container openable screen colored priced
box, boxes | Kiste, Kisten | f | thing container openable standing colored luggage
bag, bags | Tasche, Taschen | f | thing small container openable colored priced luggage
drawer, drawers | Schublade, Schubladen | f | thing container openable
bottle, bottles | Flasche, Flaschen | f | thing small fragile openable standing colored
vase, vases | Vase, Vasen | f | thing fragile standing packed colored priced
cup, cups | Tasse, Tassen | f | thing small fragile standing colored
lamp, lamps | Lampe, Lampen | f | thing device standing packed colored priced
clock, clocks | Uhr, Uhren | f | thing hanging packed priced
guitar, guitars | Gitarre, Gitarren | f | thing lying packed colored priced
newspaper, newspapers | Zeitung, Zeitungen | f | thing small lying readable
blanket, blankets | Decke, Decken | f | thing lying colored priced
bench, benches | Bank, Bänke | f | thing furniture surface leaped priced
book, books | Buch, Bücher | n | thing small lying readable priced
picture, pictures | Bild, Bilder | n | thing hanging packed screen priced
knife, knives | Messer, Messer | n | thing small priced
radio, radios | Radio, Radios | n | thing device standing priced
package, packages | Paket, Pakete | n | thing container openable luggage
barrel, barrels | Fass, Fässer | n | thing container standing
pillow, pillows | Kissen, Kissen | n | thing lying colored
dress, dresses | Kleid, Kleider | n | thing clothing colored priced
shirt, shirts | Hemd, Hemden | n | thing clothing colored priced
cage, cages | Käfig, Käfige | m | thing
stall, stalls | Stall, Ställe | m | thing
bed, beds | Bett, Betten | n | thing furniture surface leaped priced
sofa, sofas | Sofa, Sofas | n | thing furniture surface screen colored priced
shelf, shelves | Regal, Regale | n | thing furniture screen priced

apple, apples | Apfel, Äpfel | m | food
cake, cakes | Kuchen, Kuchen | m | food
mushroom, mushrooms | Pilz, Pilze | m | food
pear, pears | Birne, Birnen | f | food
tomato, tomatoes | Tomate, Tomaten | f | food
carrot, carrots | Karotte, Karotten | f | food
egg, eggs | Ei, Eier | n | food
roll, rolls | Brötchen, Brötchen | n | food
cookie, cookies | Plätzchen, Plätzchen | n | food

bus, buses | Bus, Busse | m | thing vehicle motor colored
train, trains | Zug, Züge | m | thing vehicle
truck, trucks | Lastwagen, Lastwagen | m | thing vehicle motor
sled, sleds | Schlitten, Schlitten | m | thing load
carriage, carriages | Kutsche, Kutschen | f | thing vehicle load
tram, trams | Straßenbahn, Straßenbahnen | f | thing vehicle
car, cars | Auto, Autos | n | thing vehicle motor own colored priced
bicycle, bicycles | Fahrrad, Fahrräder | n | thing vehicle own colored priced
boat, boats | Boot, Boote | n | thing load own colored priced

garden, gardens | Garten, Gärten | m | thing place inside
park, parks | Park, Parks | m | thing place inside
forest, forests | Wald, Wälder | m | thing place inside
river, rivers | Fluss, Flüsse | m | thing crossed
lake, lakes | See, Seen | m | thing
fence, fences | Zaun, Zäune | m | thing barrier leaped
street, streets | Straße, Straßen | f | thing crossed
desert, deserts | Wüste, Wüsten | f | thing crossed
bridge, bridges | Brücke, Brücken | f | thing
wall, walls | Mauer, Mauern | f | thing barrier leaped
hedge, hedges | Hecke, Hecken | f | thing barrier leaped
kitchen, kitchens | Küche, Küchen | f | thing place inside room
school, schools | Schule, Schulen | f | thing place inside building
church, churches | Kirche, Kirchen | f | thing place inside building
door, doors | Tür, Türen | f | thing openable opening colored
house, houses | Haus, Häuser | n | thing place inside building own priced
hotel, hotels | Hotel, Hotels | n | thing place inside building
museum, museums | Museum, Museen | n | thing place inside building
room, rooms | Zimmer, Zimmer | n | thing place inside room
office, offices | Büro, Büros | n | thing place inside room
field, fields | Feld, Felder | n | thing crossed
valley, valleys | Tal, Täler | n | thing place
gate, gates | Tor, Tore | n | thing openable barrier leaped
window, windows | Fenster, Fenster | n | thing openable opening
"""

# English, comparative | German, comparative[, stem before endings] | tags or single nouns that it fits, "-" before those
# that it does not, although a tag says so; behind ";" those that it fits in a frame of pronoun pairs only
# A missing comparative means: not compared.
_ADJECTIVES = """
old, older | alt, älter | person animal furniture vehicle building container readable device clothing bridge -child -boy -girl -son -daughter -brother -sister
young, younger | jung, jünger | person animal -grandfather -grandmother -child -brother -sister
new, newer | neu, neuer | small device furniture vehicle clothing building container bridge -newspaper -letter
big, bigger | groß, größer | animal ball furniture container device hanging vehicle building load crossed place -river -street; -mouse -duck -rabbit -bird
small, smaller | klein, kleiner | animal small furniture container device hanging vehicle load place lying child -newspaper -letter; opening
good | gut, besser | role readable -letter
bad | schlecht, schlechter | role readable -letter
beautiful, more beautiful | schön, schöner | horse bird cat clothing picture vase building place bridge woman princess
expensive, more expensive | teuer, teurer, teur | priced
cheap, cheaper | billig, billiger | priced
heavy, heavier | schwer, schwerer | container device furniture load mirror clock truck barrel; animal vehicle
light, lighter | leicht, leichter | luggage ball bicycle sled boat; container device load vehicle
long, longer | lang, länger | table bench box street bridge river curtain wall shelf snake bus boat train; sofa sled
short, shorter | kurz, kürzer | curtain bed dress coat street bridge river
wide, wider | breit, breiter | bridge river street valley bed bench table sofa door; crossed leaped container hanging screen -fence -gate
narrow, narrower | schmal, schmaler | street bridge river bed bench door shelf; crossed leaped container hanging screen -fence -gate -desert
high, higher | hoch, höher, hoh | barrier table bench shelf bridge; furniture
tall, taller | hoch, höher, hoh | cupboard vase bottle lamp barrel box mirror; standing furniture truck bus carriage television -radio
low, lower | niedrig, niedriger | barrier table bench bed sofa chair shelf bridge; furniture box basket drawer
deep, deeper | tief, tiefer | river lake valley
shallow, shallower | flach, flacher | river lake
quiet | ruhig | street park lake garden room
red | rot | colored apple house
blue | blau | colored bird house
green | grün | colored apple pear bird snake
black | schwarz | colored dog horse cat bird goat cow bear
white | weiß | colored dog horse cat bird goat house mouse rabbit duck
brown | braun | furniture dog horse bear cow goat duck mouse donkey box bag suitcase hat coat rabbit
dirty | schmutzig | small container clothing vehicle room window pet -key -ring -letter -newspaper -book -drawer -package
clean | sauber | container clothing room window cup bottle knife car -drawer -package -barrel
tired | müde, müder, müd | person animal
hungry | hungrig, hungriger | person animal
sick | krank | person animal
strong, stronger | stark, stärker | person horse donkey cow camel dog bear lion wolf crocodile creature; monkey goat pig cat snake
weak, weaker | schwach, schwächer | person animal; furniture bridge
fast, faster | schnell, schneller | animal vehicle boat -bicycle
slow, slower | langsam, langsamer | animal vehicle boat -bicycle
lazy, lazier | faul, fauler | person animal
dangerous, more dangerous | gefährlich, gefährlicher | wolf bear lion snake crocodile creature river street desert; hunter lake
friendly, friendlier | freundlich, freundlicher | person pet
famous, more famous | berühmt, berühmter | role actor actress king queen prince princess
great | großartig | role
clever, cleverer | klug, klüger | person animal role
rich, richer | reich, reicher | person -child -boy -girl
poor, poorer | arm, ärmer | person -king -queen -prince -princess
happy, happier | glücklich, glücklicher | person
sad, sadder | traurig, trauriger | person
angry | wütend | person animal
hard, harder | hart, härter | apple pear cake roll cookie
sour, sourer | sauer, saurer, saur | apple pear tomato
sweet, sweeter | süß, süßer | apple pear cake cookie tomato
fresh | frisch | food
hot | heiß | cake mushroom egg roll
cold | kalt | mushroom egg roll
broken | kaputt | device chair clock umbrella bicycle car
empty | leer | container bottle cup house -package
sturdy, sturdier | stabil, stabiler | table chair shelf bench bridge; furniture
"""

# English base, past[, -ing form] ("+" marks a particle) | German infinitive ("-" behind a separable prefix),
# er-form, participle, auxiliary | subjects | government, after a preposition if it has one | objects
# Objects tagged person include names and him, her, us, …
_VERBS = """
see, saw | sehen, sieht, gesehen, haben | person | accusative | person animal small vehicle building
find, found | finden, findet, gefunden, haben | person | accusative | small pet container boat -cupboard -drawer
lose, lost | verlieren, verliert, verloren, haben | person | accusative | small suitcase backpack
buy, bought | kaufen, kauft, gekauft, haben | person | accusative | small container device furniture clothing food own guitar -letter -key -drawer -barrel -package
sell, sold | verkaufen, verkauft, verkauft, haben | person | accusative | small device furniture clothing own pet guitar -letter -key -newspaper
need, needed | brauchen, braucht, gebraucht, haben | person | accusative | small container device furniture own -letter -drawer -barrel -hat -house -package
read, read, reading | lesen, liest, gelesen, haben | person | accusative | readable
write, wrote, writing | schreiben, schreibt, geschrieben, haben | person | accusative | letter
draw, drew, drawing | zeichnen, zeichnet, gezeichnet, haben | person | accusative | animal building bridge garden vase
eat, ate, eating | essen, isst, gegessen, haben | person | accusative | food
eat, ate, eating | fressen, frisst, gefressen, haben | eater | accusative | food -egg
wash, washed, washing | waschen, wäscht, gewaschen, haben | person | accusative | coat dress shirt car bicycle pet blanket -duck -bird
clean, cleaned, cleaning | putzen, putzt, geputzt, haben | person | accusative | opening room mirror table cupboard shelf car bicycle house
repair, repaired, repairing | reparieren, repariert, repariert, haben | person | accusative | device vehicle chair boat
carry, carried, carrying | tragen, trägt, getragen, haben | person | accusative | luggage barrel chair table lamp television
carry, carried, carrying | tragen, trägt, getragen, haben | carrier | accusative | luggage barrel
break, broke | zerbrechen, zerbricht, zerbrochen, haben | person | accusative | fragile
love, loved | lieben, liebt, geliebt, haben | person | accusative | person pet garden guitar
admire, admired | bewundern, bewundert, bewundert, haben | person | accusative | person building bridge garden picture
visit, visited | besuchen, besucht, besucht, haben | person | accusative | person museum church
hug, hugged | umarmen, umarmt, umarmt, haben | person | accusative | person
hear, heard | hören, hört, gehört, haben | person | accusative | person animal
kick, kicked | treten, tritt, getreten, haben | person | accusative | ball
kick, kicked | treten, tritt, getreten, haben | kicker | accusative | person dog wolf
follow, followed | folgen, folgt, gefolgt, sein | person animal | dative | person animal car bus truck carriage -mouse
help, helped | helfen, hilft, geholfen, haben | person | dative | person animal -snake -crocodile
thank, thanked | danken, dankt, gedankt, haben | person | dative | person
trust, trusted | vertrauen, vertraut, vertraut, haben | person | dative | person dog horse
listen to, listened to, listening to | zu-hören, hört, zugehört, haben | person | dative | person bird
call, called | an-rufen, ruft, angerufen, haben | person | accusative | person
invite, invited | ein-laden, lädt, eingeladen, haben | person | accusative | person
look at, looked at, looking at | an-sehen, sieht, angesehen, haben | person | accusative | animal picture building
pick +up, picked +up | ab-holen, holt, abgeholt, haben | person | accusative | person
turn +on, turned +on | ein-schalten, schaltet, eingeschaltet, haben | person | accusative | device
turn +off, turned +off | aus-schalten, schaltet, ausgeschaltet, haben | person | accusative | device
tidy +up, tidied +up, tidying +up | auf-räumen, räumt, aufgeräumt, haben | person | accusative | room
try +on, tried +on, trying +on | an-probieren, probiert, anprobiert, haben | person | accusative | hat coat shirt ring
open, opened | öffnen, öffnet, geöffnet, haben | person | accusative | openable letter
close, closed | schließen, schließt, geschlossen, haben | person | accusative | opening gate suitcase cupboard box drawer bag
wait for, waited for, waiting for | warten, wartet, gewartet, haben | person | auf accusative | person bus train tram
dream of, dreamed of | träumen, träumt, geträumt, haben | person | von dative | person animal own
give, gave | geben, gibt, gegeben, haben | person | both | small pet luggage vase lamp guitar
show, showed | zeigen, zeigt, gezeigt, haben | person | both | ring book letter newspaper clothing picture building own animal
send, sent | schicken, schickt, geschickt, haben | person | both | readable package picture
bring, brought | bringen, bringt, gebracht, haben | person | both | small luggage food
lend, lent | leihen, leiht, geliehen, haben | person | both | small car bicycle boat suitcase device guitar -letter -ring -cup -bottle -ball
sing, sang, singing | singen, singt, gesungen, haben | person bird | |
dance, danced, dancing | tanzen, tanzt, getanzt, haben | person | |
sleep, slept, sleeping | schlafen, schläft, geschlafen, haben | person animal | |
laugh, laughed, laughing | lachen, lacht, gelacht, haben | person | |
cry, cried, crying | weinen, weint, geweint, haben | person | |
work, worked, working | arbeiten, arbeitet, gearbeitet, haben | person | |
swim, swam, swimming | schwimmen, schwimmt, geschwommen, sein | person dog duck horse crocodile creature | |
disappear, disappeared | verschwinden, verschwindet, verschwunden, sein | person animal | |
get +up, got +up | auf-stehen, steht, aufgestanden, sein | person | |
wake +up, woke +up | auf-wachen, wacht, aufgewacht, sein | person animal | |
come +back, came +back | zurück-kommen, kommt, zurückgekommen, sein | person animal | |
arrive, arrived | an-kommen, kommt, angekommen, sein | person bus train tram carriage truck car | |
"""

# As _VERBS; these stand in frames of their own (pronoun pairs, places, travel) and are not drawn freely.
_FRAME_VERBS = """
cross, crossed | überqueren, überquert, überquert, haben | | accusative |
jump over, jumped over | springen, springt, gesprungen, sein | | über accusative |
pull, pulled | ziehen, zieht, gezogen, haben | | accusative |
fit into, fit into | passen, passt, gepasst, haben | | in accusative |
fit under, fit under | passen, passt, gepasst, haben | | unter accusative |
cover, covered | verdecken, verdeckt, verdeckt, haben | | accusative |
support, supported | tragen, trägt, getragen, haben | | accusative |
overtake, overtook | überholen, überholt, überholt, haben | | accusative |
catch, caught | fangen, fängt, gefangen, haben | | accusative |
attack, attacked | an-greifen, greift, angegriffen, haben | | accusative |
fear, feared | fürchten, fürchtet, gefürchtet, haben | | accusative |
escape from, escaped from | entkommen, entkommt, entkommen, sein | | dative |
lie, lay, lying | liegen, liegt, gelegen, haben | | |
stand, stood, standing | stehen, steht, gestanden, haben | | |
sit, sat, sitting | sitzen, sitzt, gesessen, haben | | |
wait, waited, waiting | warten, wartet, gewartet, haben | | |
run, ran, running | laufen, läuft, gelaufen, sein | | |
jump, jumped, jumping | springen, springt, gesprungen, sein | | |
go, went, going | gehen, geht, gegangen, sein | | |
lay, laid | legen, legt, gelegt, haben | | accusative |
place, placed | stellen, stellt, gestellt, haben | | accusative |
live, lived | wohnen, wohnt, gewohnt, haben | | |
travel, traveled, traveling | reisen, reist, gereist, sein | | |
fly, flew, flying | fliegen, fliegt, geflogen, sein | | |
praise, praised | loben, lobt, gelobt, haben | | accusative |
respect, respected | respektieren, respektiert, respektiert, haben | | accusative |
know, knew | kennen, kennt, gekannt, haben | | accusative |
cost, cost | kosten, kostet, gekostet, haben | | |
"""

# As _VERBS; these are followed by "that …". Their first person is the stem and -e, or stands in FIRST_PERSONS.
_SAYING_VERBS = """
know, knew | wissen, weiß, gewusst, haben | person | |
hope, hoped | hoffen, hofft, gehofft, haben | person | |
say, said | sagen, sagt, gesagt, haben | person | |
believe, believed | glauben, glaubt, geglaubt, haben | person | |
"""

# As _VERBS; in German they have a reflexive pronoun: "sich beeilen".
_REFLEXIVE_VERBS = """
hurry, hurried, hurrying | beeilen, beeilt, beeilt, haben | person | |
apologize, apologized, apologizing | entschuldigen, entschuldigt, entschuldigt, haben | person | |
complain, complained, complaining | beschweren, beschwert, beschwert, haben | person | |
rest, rested, resting | aus-ruhen, ruht, ausgeruht, haben | person | |
lie +down, lay +down | hin-legen, legt, hingelegt, haben | person dog cat horse cow | |
get +dressed, got +dressed, getting +dressed | an-ziehen, zieht, angezogen, haben | person | |
remember, remembered | erinnern, erinnert, erinnert, haben | person | an accusative | person animal building garden picture letter
fall +in +love with, fell +in +love with | verlieben, verliebt, verliebt, haben | person | in accusative | person
look +forward to, looked +forward to, looking +forward to | freuen, freut, gefreut, haben | person | auf accusative | cake letter book
complain about, complained about, complaining about | beschweren, beschwert, beschwert, haben | person | über accusative | person hotel room bed food vehicle device
introduce, introduced | vor-stellen, stellt, vorgestellt, haben | person | accusative | self
wash, washed, washing | waschen, wäscht, gewaschen, haben | person | accusative | self
"""

FIRST_PERSONS = {'wissen': 'weiß'}

# English | German | tenses in which it is used; "long": of nothing short, "middle": English has it before the verb
_TIMES = """
yesterday | gestern | past
today | heute | past future
this morning | heute Morgen | past
last week | letzte Woche | past long
last year | letztes Jahr | past long
on Monday | am Montag | past future
on Tuesday | am Dienstag | past future
on Wednesday | am Mittwoch | past future
on Thursday | am Donnerstag | past future
on Friday | am Freitag | past future
on Saturday | am Samstag | past future
on Sunday | am Sonntag | past future
tomorrow | morgen | future
tonight | heute Abend | future
next week | nächste Woche | future long
next year | nächstes Jahr | future long
every day | jeden Tag | present
every evening | jeden Abend | present
sometimes | manchmal | present middle
often | oft | present middle
rarely | selten | present middle
always | immer | present middle
now | jetzt | progressive
at the moment | im Moment | progressive
"""

# English singular, plural | he: German singular, plural[, weak] | she: German singular, plural
_ROLES = """
teacher, teachers | Lehrer, Lehrer | Lehrerin, Lehrerinnen
doctor, doctors | Arzt, Ärzte | Ärztin, Ärztinnen
student, students | Student, Studenten, weak | Studentin, Studentinnen
singer, singers | Sänger, Sänger | Sängerin, Sängerinnen
painter, painters | Maler, Maler | Malerin, Malerinnen
director, directors | Regisseur, Regisseure | Regisseurin, Regisseurinnen
writer, writers | Schriftsteller, Schriftsteller | Schriftstellerin, Schriftstellerinnen
baker, bakers | Bäcker, Bäcker | Bäckerin, Bäckerinnen
pilot, pilots | Pilot, Piloten, weak | Pilotin, Pilotinnen
judge, judges | Richter, Richter | Richterin, Richterinnen
journalist, journalists | Journalist, Journalisten, weak | Journalistin, Journalistinnen
musician, musicians | Musiker, Musiker | Musikerin, Musikerinnen
dancer, dancers | Tänzer, Tänzer | Tänzerin, Tänzerinnen
lawyer, lawyers | Anwalt, Anwälte | Anwältin, Anwältinnen
architect, architects | Architekt, Architekten, weak | Architektin, Architektinnen
"""

# verb | "not" or nothing | subjects | objects | adjectives said of the subject | adjectives said of the object
# An adjective alone must not give the answer away: most stand on either side, in one row or another. A "*" marks a key,
# (verb, "not", adjective), that only the test has: what it means follows from the other keys of the verb and adjective.
_FRAMES = """
cross | not | animal -bird -duck -crocodile | crossed | tired weak sick old lazy | wide dangerous deep
cross | | animal -bird -duck -crocodile | street field | fast | narrow
cross | | animal -bird -duck -crocodile | river desert | strong | narrow shallow
jump over | not | jumper | barrier | tired weak heavy small old | high wide
jump over | not | dog cat monkey rabbit | table bench bed | tired weak heavy small old | high wide
jump over | | jumper | barrier | strong fast | low
jump over | | dog cat monkey rabbit | table bench bed | strong fast | low
pull | not | puller -camel | load barrel -boat | weak tired lazy | heavy big
pull | | puller -camel | load barrel -boat | strong | light
carry | not | carrier | luggage barrel | weak tired lazy small | heavy big
carry | | carrier | luggage barrel | strong | light small
eat | not | eater | food -egg | sick | hard sour
eat | | eater | food -egg | hungry | sweet fresh
fit into | not | packed | container car -barrel -drawer -package | big long wide tall | small narrow low*
fit into | not | cat dog rabbit | cupboard box | big long | small narrow low*
fit into | not | luggage | cupboard car | big long wide tall | small narrow low*
fit into | | packed | container car -barrel -drawer -package | small narrow | big wide
fit into | | cat dog rabbit | cupboard box | small | big wide
fit into | | luggage | cupboard car | small narrow | big wide
fit under | not | standing -cup -bottle chair dog goat pig | table bench bed shelf | tall big wide* | low small
fit under | not | truck bus boat carriage camel | bridge | tall big wide* | low
fit under | | standing -cup -bottle chair dog goat pig | table bench bed shelf | low small | high
fit under | | truck bus boat carriage camel | bridge | low narrow small | high
cover | not | curtain cupboard shelf box | mirror picture window door | small narrow low | big wide tall long
cover | | curtain cupboard shelf box | mirror picture window door | big wide tall long | small narrow low
support | not | table chair shelf bench | container television -drawer -cupboard | weak old | heavy big
support | not | bridge | vehicle -bicycle camel horse cow | weak old | heavy big
support | | table chair shelf bench | container television -drawer -cupboard | sturdy | light small*
support | | bridge | car carriage horse cow | sturdy | light small*
overtake | not | vehicle -carriage -bicycle | vehicle -carriage -bicycle | slow old* | fast
overtake | | vehicle -carriage -bicycle | vehicle -carriage -bicycle | fast | slow old*
catch | not | hunter | prey | slow tired* lazy | fast clever
catch | | hunter | prey | fast clever strong | slow tired* weak old
attack | not | hunter -cat | animal | tired lazy | strong dangerous
attack | | hunter -cat | animal | hungry angry | weak small tired
fear | not | feared | animal -camel -horse -cow -bear -lion -crocodile | strong big | small weak
fear | | animal -bear -lion -wolf | feared | small weak | big strong dangerous
escape from | not | prey | hunter | slow tired old | fast clever* strong
escape from | | prey | hunter | fast clever* | slow tired lazy old
"""

# First names whose sex matters somewhere ("as a great director"): a few, so that training shows each of them often.
FAMILIAR_MEN = """Anthony Michael Bob Peter Thomas John David Daniel Robert Martin Paul Stefan Andreas Jonas Felix
    Lukas Oliver Simon Tobias Walter""".split()
FAMILIAR_WOMEN = """Anna Maria Julia Laura Sarah Emma Lena Sophia Clara Eva Martha Helen Susan Karin Monika Petra
    Nina Lisa Barbara Elena""".split()

# First names whose sex no sentence needs: they are only ever copied.
OTHER_FIRST_NAMES = """Aaron Abel Adam Adrian Alan Albert Alexander Alfred Anton Arnold Arthur August Axel Barry
    Benedikt Benjamin Bernard Boris Brandon Brian Bruno Carl Carsten Caspar Charles Christian Christoph Clemens
    Colin Conrad Damian Dennis Detlef Dieter Dirk Dominik Donald Douglas Eberhard Edgar Edmund Eduard Edward Egon
    Elias Emil Eric Ernst Erwin Eugen Fabian Ferdinand Florian Frank Franz Frederik Friedrich Fritz Gabriel Georg
    Gerald Gerhard Gilbert Gordon Gottfried Graham Gregor Guido Gustav Hannes Harald Harold Heiko Heinrich Helmut
    Hendrik Henry Herbert Hermann Holger Horst Howard Hubert Hugo Igor Ingo Isaac Ivan Jakob James Jan Jasper
    Jeffrey Jeremy Jerome Joachim Joel Johannes Jonathan Josef Julian Justin Kaspar Keith Kenneth Kevin Klaus Konrad
    Konstantin Kurt Lars Laurence Leonard Leopold Linus Lorenz Louis Ludwig Magnus Malcolm Manfred Marcel Mario
    Markus Marvin Matthew Maximilian Melvin Moritz Nathan Neil Nicholas Niklas Norbert Norman Olaf Oscar Otto Pascal
    Patrick Philipp Raimund Ralf Raphael Raymond Reinhard Richard Roland Rolf Roman Ronald Rudolf Rupert Russell
    Samuel Sebastian Siegfried Stanley Steven Sven Theodor Timothy Ulrich Uwe Valentin Victor Vincent Volker Warren
    Werner Wilfried Wilhelm William Winfried Wolfgang Xaver Ada Adele Agatha Agnes Alexandra Alice Alina Amanda
    Amelie Angela Anja Annette Antonia Astrid Audrey Beate Beatrice Bettina Bianca Birgit Brenda Bridget Brigitte
    Camilla Carla Carmen Carolin Catherine Cecilia Charlotte Christa Christine Claudia Constanze Cornelia Cynthia
    Dagmar Daniela Deborah Diana Dora Doreen Doris Dorothea Edith Eileen Eleonora Elfriede Elisabeth Elke Ella Ellen
    Elvira Emily Erika Esther Evelyn Fiona Flora Franziska Frieda Gabriele Gerda Gertrud Gisela Gloria Grace Greta
    Gudrun Hanna Hannelore Hedwig Heike Heidi Helga Henriette Hilda Hildegard Ida Ilse Ines Inge Ingrid Irene Iris
    Irma Isabel Ivonne Jane Janet Janina Jasmin Jennifer Jessica Joan Johanna Josefine Judith Juliane Jutta Karen
    Katharina Kathleen Katrin Kerstin Klara Kristina Larissa Leonie Lilian Linda Lydia Magdalena Manuela Margaret
    Marianne Marina Marion Marlene Martina Mathilda Melanie Michaela Mildred Miriam Nadine Nadja Natalie Nora Olga
    Olivia Ottilie Pamela Patricia Paula Pauline Phyllis Rachel Ramona Rebecca Regina Renate Rita Rosa Rosemarie
    Ruth Sabine Sabrina Sandra Sibylle Sigrid Silke Silvia Simone Sonja Stella Stephanie Svenja Sylvia Tamara Tanja
    Tatjana Teresa Theresa Ulrike Ursula Valerie Vanessa Vera Verena Veronika Victoria Viola Virginia Waltraud Wanda
    Wendy Yasmin Yvonne""".split()

COMMON_SURNAMES = """Hopkins Bay Miller Smith Brown Taylor Wilson Walker Wright Turner Cooper Parker Bennett Murray
    Morgan Hughes Palmer Foster Russell Griffin Hayes Bryant Cole Fisher Ellis Harrison Gibson Marshall Owens Burns
    Warren Dixon Rice Robertson Knight Spencer Payne Pierce Berry Arnold Ray Grant Fox Stone Becker Wagner Schulz
    Hoffmann Koch Klein Neumann Schwarz Zimmermann Braun Hartmann Lange Krause Werner Lehmann Meier Maier Huber
    Kaiser Fuchs Peters Scholz Weber Keller Frank Berger Winkler Roth Beck Lorenz Baumann Franke Albrecht Schuster
    Simon Ludwig Winter Kraus Martin Schumacher Vogt Stein Otto Sommer Gross Seidel Heinrich Brandt Haas Schreiber
    Graf Dietrich Ziegler Kuhn Pohl Engel Horn Busch Bergmann Thomas Voigt Sauer Wolff Pfeiffer""".split()

# Surnames put together: every head with every tail, some of them real. Names are endless, so a name is to be copied, not
# remembered: most that training has are made up (see names), and most that the test has were never seen.
_SURNAME_HEADS = """Stein Rosen Linden Birken Eichen Gold Silber Eisen Kirsch Bach Berg Wald Feld Kron Land Licht
    Morgen Neu Ober Unter Hol Wester Oster Sand Schön Grün Roten Weiden Hohen Tannen Blumen Loren Fried Ehren Haver
    Hammer Wester Wall Ash Brad Crom Dal Gar Hart Lang Mel Ran Shel Stan Thorn Whit Win""".split()
_SURNAME_TAILS = """berg feld bach mann stein thal hoff dorf heim meyer hauser müller ton ford ley field wood well
    worth by den ner sen""".split()

CITIES = """Berlin Hamburg Paris London Madrid Oslo Boston Chicago Amsterdam Dublin Stockholm Budapest Bremen
    Dresden Leipzig Frankfurt Stuttgart Bonn Kassel Potsdam Rostock Salzburg Innsbruck Luzern Basel Bern Toronto
    Montreal Denver Houston Dallas Detroit Seattle Atlanta Orlando Manchester Liverpool Bristol Glasgow Barcelona
    Valencia Bordeaux Toulouse Marseille Istanbul Ankara Helsinki Bergen Tallinn Riga Sofia Porto Santiago Lima
    Quito Nairobi Dakar Sydney Melbourne Adelaide Osaka Seoul Jakarta Manila Delhi""".split()


def _noun(row: list[str]) -> Noun:
  english, german, gender, tags = row
  singular, plural = _list(english)
  return Noun(singular, plural, *_list(german), gender[0], gender.endswith('weak'),
              frozenset([singular, *tags.split()]))


def _adjective(row: list[str]) -> Adjective:
  english, *compared = _list(row[0])
  german, *rest = _list(row[1])
  comparative, stem = (rest + ['', ''])[:2]
  tags, framed = (frozenset(part.split()) for part in row[2].partition(';')[::2])
  return Adjective(english, compared[0] if compared else '', german, comparative, stem or german, tags, tags | framed)


def _verb(row: list[str]) -> Verb:
  english, german, subjects, government, objects = row
  base, past, *progressive = (form.split() for form in _list(english))
  particle = ' '.join(part[1:] for part in base[1:] if part.startswith('+'))
  infinitive, third, participle, auxiliary = _list(german)
  prefix, separated, stem = infinitive.rpartition('-')
  preposition, _, case = government.rpartition(' ')
  return Verb(
      english=base[0], past=past[0], progressive=progressive[0][0] if progressive else '',
      particle=particle, preposition=' '.join(part for part in base[1:] if not part.startswith('+')),
      infinitive=prefix + stem, prefix=prefix if separated else '', third=third, participle=participle,
      auxiliary=auxiliary, subjects=frozenset(subjects.split()), government=case, german_preposition=preposition,
      objects=frozenset(objects.split()))


def _role(row: list[str]) -> Role:
  english, plural = _list(row[0])
  german, german_plural, *weak = _list(row[1])
  tags = frozenset([english, 'role'])
  return Role(english, plural, Noun(english, plural, german, german_plural, 'm', bool(weak), tags),
              Noun(english, plural, *_list(row[2]), 'f', False, tags))


def _frame(row: list[str]) -> Frame:
  verb, negated, subjects, objects, *marked = row
  of_subject, of_object = (tuple(cell.replace('*', '').split()) for cell in marked)
  held_out = frozenset(word[:-1] for cell in marked for word in cell.split() if word.endswith('*'))
  return Frame(verb, negated == 'not', frozenset(subjects.split()), frozenset(objects.split()), of_subject, of_object,
               held_out)


def _time(row: list[str]) -> Time:
  english, german, tags = row
  return Time(english, german, frozenset(tags.split()) - {'long', 'middle'}, 'long' in tags, 'middle' in tags)


def _surnames() -> list[str]:
  composed = (head + tail for head in dict.fromkeys(_SURNAME_HEADS) for tail in _SURNAME_TAILS if head[-1] != tail[0])
  return list(dict.fromkeys([*COMMON_SURNAMES, *composed]))


NOUNS = {noun.english: noun for noun in map(_noun, _rows(_NOUNS))}
ADJECTIVES = {adjective.english: adjective for adjective in map(_adjective, _rows(_ADJECTIVES))}
VERBS = [_verb(row) for row in _rows(_VERBS)]
FRAME_VERBS = {verb.name: verb for verb in map(_verb, _rows(_FRAME_VERBS))}
SAYING_VERBS = [_verb(row) for row in _rows(_SAYING_VERBS)]
REFLEXIVE_VERBS = [_verb(row) for row in _rows(_REFLEXIVE_VERBS)]
TIMES = [_time(row) for row in _rows(_TIMES)]
ROLES = [_role(row) for row in _rows(_ROLES)]
FRAMES = [_frame(row) for row in _rows(_FRAMES)]
SURNAMES = _surnames()
LISTED_NAMES = frozenset([*FAMILIAR_MEN, *FAMILIAR_WOMEN, *OTHER_FIRST_NAMES, *SURNAMES, *CITIES])


def fits(tags: frozenset[str], noun: Noun) -> bool:
  """Whether a noun is among what a verb or an adjective goes with; a tag "-child" leaves that noun out."""
  return not tags.isdisjoint(noun.tags) and f'-{noun.english}' not in tags


def is_animal(word: str) -> bool:
  """Whether an English singular is an animal."""
  return word in NOUNS and 'animal' in NOUNS[word].tags


def nouns(tags: frozenset[str]) -> list[Noun]:
  """Every noun with one of the tags, in the table's order."""
  return [noun for noun in NOUNS.values() if fits(tags, noun)]
