"""Common given names: who has one is a person, where the name of a firm or a thing might stand as well."""

from __future__ import annotations

from slowwave.text import plain_letters, word_set

_GIVEN_NAMES = word_set(
    """aaron abby abdul abigail achim ada adam adele adrian adriana agata agnes agnieszka ahmed aisha akiko alan alba
    albert alberto alejandra alejandro alessandra alessandro alex alexander alexandra alexandre alexei alfred ali
    alice alicia alina aline alison allison alma alvaro amanda amelia amelie amina amir amit amy ana anais anastasia
    anders andre andrea andreas andres andrew andrzej andy angela angelika angelo anika anil anita anja anke ann
    anna annabel anne annette annika anthony antje antoine anton antonia antonio antti anya ariane arjun arne arnold
    arthur arturo asa asha astrid audrey august aurora ava axel aylin ayse barbara bart bartosz beate beatrice
    beatrix beatriz ben benedikt benjamin benoit berit bernadette bernard bernd berta beth bettina bianca bill
    birgit bjorn bob boris brenda brian brigitte bruno burak camila camille carina carl carla carlo carlos carmen
    carol carola carolina caroline carsten catarina catherine cecile cecilia celia celine chantal charles charlotte
    chiara chloe chris christa christian christiane christina christine christof christoph christopher claire clara
    clarissa claude claudia claudio claus clemens clement colin connor conny constanze cora corinna cornelia craig
    cristian cristiano cristina cynthia dagmar damian damien dan dana daniel daniela daniele danielle danny dario
    darius dave david dawid debbie deborah deepak denis denise dennis derek detlef diana diane diego dieter dilara
    dimitri dina dirk dmitri dmitry dominik dominique donald donna doris dorota dorothea dorothy duarte dylan edith
    edoardo eduardo edward edwin ekaterina elena eleni eleonora elias elif elina elisa elisabeth elise elizabeth
    elke ella ellen elodie elsa emil emilia emilie emily emma emmanuel enrico enrique erica erich erik erika erin
    ernst esteban esther eugenia eva evelyn ewa fabian fabio fabrice farid fatima federica federico felicitas felipe
    felix ferdinand fernanda fernando filip filipa fiona flora florian francesca francesco francis francisca
    francisco franck francois francoise frank frans franz franziska fred frederic frederik freya frida friedrich
    fritz gabriel gabriela gareth gary geoff georg george georgia georgina gerald gerard gerd gerda gerhard giada
    gianni gilles gina giorgio giovanna giovanni gisela giulia giuseppe gordon graham greg gregor gregory greta
    gudrun guido guillaume guillermo gunnar gunter gustav gwen hamza hana hanna hannah hanne hannes hans harald
    harriet harry hassan heather hector heidi heike heiko heinrich heinz helen helena helene helga helmut hendrik
    henri henrik henrike henry herbert hermann hilda hilde hildegard hiroshi holger horst howard hugh hugo ian
    ibrahim ida ignacio igor ilaria ilona ilse imke ina ines inga inge ingo ingrid irena irene irina iris irma isaac
    isabel isabella isabelle isla ivan ivana ivo jack jacob jacqueline jacques jakob jakub james jamie jan jana jane
    janet janina janine jason javier jean jeanne jeff jennifer jenny jens jeremy jerome jesper jessica jill jim
    joachim joan joana joanna joao joaquin jochen joe joel joelle johan johann johanna johannes john jolanda jon
    jonas jonathan jorg jorge jorn jose josef josefine joseph josh joshua juan juana juha juho julia julian juliana
    julie julien juliette julio jurgen justin justyna jutta kai karen karin karina karl karla karolina karsten
    katarina katarzyna kate katharina katherine kathleen kathrin katie katja katrin kay keith kelly kemal ken kenji
    kerstin kevin kim kirsten klara klaus konrad konstantin kristian kristin kristina krzysztof kurt kyle lara
    larissa lars laszlo laura lauren laurent lea leah leila lena leo leon leonard leonardo leonie leonor leticia
    liam lilly lina linda linus lionel lisa liz lorena lorenz lorenzo lotte louis louisa louise luc luca lucas lucia
    lucie lucy ludwig luigi luis luisa lukas luke lutz lydia maarten mads magda magdalena maggie magnus mahmoud
    maike maja malin malte manfred manon manuel manuela mara marc marcel marcelo marcin marco marcos marcus mareike
    maren margaret margarita margit margot maria mariam mariana marianne marie marija marina mario marion marisa
    marisol marius mark markus marlene marta martha martin martina martine mary maryam mateo mateusz mathias mathieu
    mathilde matteo matthew matthias matthieu maureen maurice mauricio max maxime maximilian maya megan mehmet mei
    melanie melissa mia micha michael michaela michal michel michele michelle miguel mika mikael mike mikhail mila
    milan milena mina mira miriam mirjam mohamed mohammed moira monica monika monique moritz muhammad murat nadia
    nadine nadja nancy naomi natalia natalie natasha nathalie nathan neil nele nelson nicholas nick nico nicola
    nicolas nicole niels niklas nikola nikolai nils nina noah noemi nora norbert nuno odile ola olaf oleg olga
    oliver olivia olivier omar oscar oskar otto pablo pamela paola paolo pascal patricia patrick patrik paul paula
    pauline pavel pawel pedro peggy peter petra philip philipp philippe phoebe pierre pilar piotr priya rachel
    rafael raffael rahul rainer raj ralf ramon raphael raquel ravi rebecca regina reinhard renate rene ricardo
    riccardo richard rita robert roberta roberto robin rodrigo roger roland rolf roman romy ron rosa rosalie
    rosemary ruben rudolf rupert ruth ryan sabine sabrina sally salma sam samira samuel sandra sara sarah sascha
    scott sean sebastian selma serena sergei sergio seth shane sharon sheila shirley silke silvia simon simona
    simone sina sofia solveig sonia sonja sophia sophie stefan stefania stefanie steffen stella stephan stephanie
    stephen steve steven stuart sue sunita susan susana susanna susanne sven svenja svetlana sylvia sylvie tamara
    tania tanja tara tatiana ted teresa thea theo theodor theresa therese thierry thomas thorsten tiago tilman tim
    timo timothy tina tobias tom tomas tomasz toni tony torsten tracy tristan udo ulla ulrich ulrike ursula uta ute
    uwe valentin valentina valeria valerie vanessa vera verena veronica veronika viktor viktoria vincent viola
    virginia vivian volker walter waltraud wanda wei wendy werner wilhelm willem william wojciech wolfgang xavier
    yannick yara yasmin yolanda yuki yusuf yvette yvonne zeynep zoe zofia zuzana"""
)


def is_given_name(word: str) -> bool:
    """Whether a capitalised word is a common given name, with or without its accents."""
    return word[:1].isupper() and plain_letters(word).lower() in _GIVEN_NAMES
