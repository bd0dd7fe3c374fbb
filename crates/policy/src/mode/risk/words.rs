//! The words that the assessment knows, in small letters and without accents, in the forms in which they occur. A word
//! that is not here in its form is unknown; nothing is derived from its ending.
//!
//! The lists are put into an index when the program is compiled, so that a word is found in the same time however many
//! there are.

/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Destroys,
    Publishes,
    Changes,
    Reads,
    /// A loop, and broad.
    Each,
    /// Broad.
    Whole,
    /// A loop.
    Repeats,
    Sensitive,
    Condition,
    /// A clause ends before it.
    Connects,
    /// A verb behind it is a further step.
    Joins,
    /// Passed over where a clause begins.
    Opens,
    /// Nothing to do, and nothing that opens a clause.
    Particle,
    /// A common word, but for pairs.
    Latter,
    Common,
}

impl Class {
    /// Returns whether the word is a verb, so that it can be a step.
    pub(super) const fn is_verb(self) -> bool {
        matches!(self, Self::Destroys | Self::Publishes | Self::Changes | Self::Reads)
    }

    /// Returns whether a clause of such words alone has something to do.
    pub(super) const fn is_content(self) -> bool {
        !matches!(self, Self::Connects | Self::Joins | Self::Opens | Self::Particle)
    }
}

/// Words that destroy, in English.
const DESTROYS_EN: &str = "\
    delete deletes deleted deleting remove removes removed removing drop drops dropped dropping overwrite \
    overwrites overwrote overwritten overwriting wipe wipes wiped wiping erase erases erased erasing destroy \
    destroys destroyed destroying purge purges purged purging truncate truncates truncated truncating kill \
    kills killed killing rm rmdir unlink unlinks unlinked unlinking reset resets resetting discard discards \
    discarded discarding terminate terminates terminated terminating revoke revokes revoked revoking shred \
    shreds shredded shredding nuke nukes nuked nuking";

/// Words that destroy, in Spanish.
const DESTROYS_ES: &str = "\
    borrar borra borre borres borren borrando borrado borralo borrala borralos borralas borrarlo borrarla \
    borrarlos borrarlas eliminar elimina elimine elimines eliminen eliminando eliminado eliminalo eliminala \
    eliminalos eliminalas eliminarlo eliminarla eliminarlos eliminarlas destruir destruye destruya destruyas \
    destruyan destruyendo destruido destruyelo destruyela destruyelos destruyelas destruirlo destruirla \
    destruirlos destruirlas suprimir suprime suprima suprimas supriman suprimiendo suprimido suprimelo \
    suprimela suprimelos suprimelas suprimirlo suprimirla suprimirlos suprimirlas vaciar vacia vacie vacies \
    vacien vaciando vaciado vacialo vaciala vacialos vacialas vaciarlo vaciarla vaciarlos vaciarlas \
    sobrescribir sobrescribe sobrescriba sobrescribas sobrescriban sobrescribiendo sobrescrito sobrescribelo \
    sobrescribela sobrescribelos sobrescribelas sobrescribirlo sobrescribirla sobrescribirlos \
    sobrescribirlas sobreescribir sobreescribe sobreescriba sobreescribas sobreescriban sobreescribiendo \
    sobreescrito sobreescribelo sobreescribela sobreescribelos sobreescribelas sobreescribirlo \
    sobreescribirla sobreescribirlos sobreescribirlas quitar quita quite quites quiten quitando quitado \
    quitalo quitala quitalos quitalas quitarlo quitarla quitarlos quitarlas purgar purga purgue purgues \
    purguen purgando purgado purgalo purgala purgalos purgalas purgarlo purgarla purgarlos purgarlas truncar \
    trunca trunque trunques trunquen truncando truncado truncalo truncala truncalos truncalas truncarlo \
    truncarla truncarlos truncarlas matar mata mate mates maten matando matado matalo matala matalos matalas \
    matarlo matarla matarlos matarlas descartar descarta descarte descartes descarten descartando descartado \
    descartalo descartala descartalos descartalas descartarlo descartarla descartarlos descartarlas revocar \
    revoca revoque revoques revoquen revocando revocado revocalo revocala revocalos revocalas revocarlo \
    revocarla revocarlos revocarlas restablecer restablece restablezca restablezcas restablezcan \
    restableciendo restablecido restablecelo restablecela restablecelos restablecelas restablecerlo \
    restablecerla restablecerlos restablecerlas resetear resetea resetee resetees reseteen reseteando \
    reseteado resetealo reseteala resetealos resetealas resetearlo resetearla resetearlos resetearlas";

/// Words that reach others: to publish, to send, to pay; in English.
const PUBLISHES_EN: &str = "\
    deploy deploys deployed deploying publish publishes published publishing push pushes pushed pushing send \
    sends sent sending pay pays paid paying purchase purchases purchased purchasing buy buys bought buying \
    email emails emailed emailing post posted posting release releases released releasing submit submits \
    submitted submitting upload uploads uploaded uploading share shares shared sharing transfer transfers \
    transferred transferring tweet tweets tweeted tweeting notify notifies notified notifying invite invites \
    invited inviting charge charges charged charging refund refunds refunded refunding sell sells sold \
    selling broadcast broadcasts broadcasting reply replies replied replying";

/// The same in Spanish.
const PUBLISHES_ES: &str = "\
    desplegar despliega despliegue despliegues desplieguen desplegando desplegado despliegalo despliegala \
    despliegalos despliegalas desplegarlo desplegarla desplegarlos desplegarlas publicar publica publique \
    publiques publiquen publicando publicado publicalo publicala publicalos publicalas publicarlo publicarla \
    publicarlos publicarlas enviar envia envie envies envien enviando enviado envialo enviala envialos \
    envialas enviarlo enviarla enviarlos enviarlas mandar manda mande mandes manden mandando mandado mandalo \
    mandala mandalos mandalas mandarlo mandarla mandarlos mandarlas pagar paga pague pagues paguen pagando \
    pagado pagalo pagala pagalos pagalas pagarlo pagarla pagarlos pagarlas comprar compra compre compres \
    compren comprando comprado compralo comprala compralos compralas comprarlo comprarla comprarlos \
    comprarlas transferir transfiere transfiera transfieras transfieran transfiriendo transferido \
    transfierelo transfierela transfierelos transfierelas transferirlo transferirla transferirlos \
    transferirlas compartir comparte comparta compartas compartan compartiendo compartido compartelo \
    compartela compartelos compartelas compartirlo compartirla compartirlos compartirlas subir sube suba \
    subas suban subiendo subido subelo subela subelos subelas subirlo subirla subirlos subirlas lanzar lanza \
    lance lances lancen lanzando lanzado lanzalo lanzala lanzalos lanzalas lanzarlo lanzarla lanzarlos \
    lanzarlas vender vende venda vendas vendan vendiendo vendido vendelo vendela vendelos vendelas venderlo \
    venderla venderlos venderlas reembolsar reembolsa reembolse reembolses reembolsen reembolsando \
    reembolsado reembolsalo reembolsala reembolsalos reembolsalas reembolsarlo reembolsarla reembolsarlos \
    reembolsarlas invitar invita inviten invitando invitado invitalo invitala invitalos invitalas invitarlo \
    invitarla invitarlos invitarlas notificar notifica notifique notifiques notifiquen notificando \
    notificado notificalo notificala notificalos notificalas notificarlo notificarla notificarlos \
    notificarlas facturar factura facture factures facturen facturando facturado facturalo facturala \
    facturalos facturalas facturarlo facturarla facturarlos facturarlas cobrar cobra cobre cobres cobren \
    cobrando cobrado cobralo cobrala cobralos cobralas cobrarlo cobrarla cobrarlos cobrarlas contratar \
    contrata contrate contrates contraten contratando contratado contratalo contratala contratalos \
    contratalas contratarlo contratarla contratarlos contratarlas difundir difunde difunda difundas difundan \
    difundiendo difundido difundelo difundela difundelos difundelas difundirlo difundirla difundirlos \
    difundirlas responder responde responda respondas respondan respondiendo respondido respondelo \
    respondela respondelos respondelas responderlo responderla responderlos responderlas";

/// Words that change something, or run what may, in English.
const CHANGES_EN: &str = "\
    edit edits edited editing write writes wrote written writing rename renames renamed renaming move moves \
    moved moving install installs installed installing uninstall uninstalls uninstalled uninstalling update \
    updates updated updating change changes changed changing modify modifies modified modifying add adds \
    added adding create creates created creating make makes made making set sets replace replaces replaced \
    replacing insert inserts inserted inserting patch patches patched patching fix fixes fixed fixing repair \
    repairs repaired repairing refactor refactors refactored refactoring rewrite rewrites rewrote rewritten \
    rewriting append appends appended appending copy copies copied copying convert converts converted \
    converting merge merges merged merging commit commits committed committing rebase rebases rebased \
    rebasing rollback rollbacks revert reverts reverted reverting restart restarts restarted restarting \
    start starts started starting stop stops stopped stopping run runs ran running execute executes executed \
    executing build builds built building compile compiles compiled compiling generate generates generated \
    generating save saves saved saving configure configures configured configuring enable enables enabled \
    enabling disable disables disabled disabling upgrade upgrades upgraded upgrading downgrade downgrades \
    downgraded downgrading migrate migrates migrated migrating import imports imported importing clean \
    cleans cleaned cleaning clear clears cleared clearing close closes closed closing format formats \
    formatted formatting implement implements implemented implementing apply applies applied applying \
    schedule schedules scheduled scheduling click clicks clicked clicking fill fills filled filling archive \
    archives archived archiving assign assigns assigned assigning cancel cancels cancelled canceled \
    cancelling canceling download downloads downloaded downloading mv cp mkdir touch chmod chown";

/// The same in Spanish.
const CHANGES_ES: &str = "\
    editar edita edite edites editen editando editado editalo editala editalos editalas escribir escribe \
    escriba escribas escriban escribiendo escrito escribelo escribela escribelos escribelas mover mueve \
    mueva muevas muevan moviendo movido muevelo muevela muevelos muevelas renombrar renombra renombre \
    renombres renombren renombrando renombrado renombralo renombrala renombralos renombralas instalar \
    instala instale instales instalen instalando instalado instalalo instalala instalalos instalalas \
    desinstalar desinstala desinstale desinstales desinstalen desinstalando desinstalado desinstalalo \
    desinstalala desinstalalos desinstalalas actualizar actualiza actualice actualices actualicen \
    actualizando actualizado actualizalo actualizala actualizalos actualizalas cambiar cambia cambie cambies \
    cambien cambiando cambiado cambialo cambiala cambialos cambialas modificar modifica modifique modifiques \
    modifiquen modificando modificado modificalo modificala modificalos modificalas agregar agrega agregue \
    agregues agreguen agregando agregado agregalo agregala agregalos agregalas anadir anade anada anadas \
    anadan anadiendo anadido anadelo anadela anadelos anadelas crear crea cree crees creen creando creado \
    crealo creala crealos crealas reemplazar reemplaza reemplace reemplaces reemplacen reemplazando \
    reemplazado reemplazalo reemplazala reemplazalos reemplazalas sustituir sustituye sustituya sustituyas \
    sustituyan sustituyendo sustituido sustituyelo sustituyela sustituyelos sustituyelas insertar inserta \
    inserte insertes inserten insertando insertado insertalo insertala insertalos insertalas corregir \
    corrige corrija corrijas corrijan corrigiendo corregido corrigelo corrigela corrigelos corrigelas \
    arreglar arregla arregle arregles arreglen arreglando arreglado arreglalo arreglala arreglalos \
    arreglalas reparar repara repare repares reparen reparando reparado reparalo reparala reparalos \
    reparalas refactorizar refactoriza refactorice refactorices refactoricen refactorizando refactorizado \
    refactorizalo refactorizala refactorizalos refactorizalas reescribir reescribe reescriba reescribas \
    reescriban reescribiendo reescrito reescribelo reescribela reescribelos reescribelas copiar copia copie \
    copien copiando copiado copialo copiala copialos copialas convertir convierte convierta conviertas \
    conviertan convirtiendo convertido conviertelo conviertela conviertelos conviertelas fusionar fusiona \
    fusione fusiones fusionen fusionando fusionado fusionalo fusionala fusionalos fusionalas revertir \
    revierte revierta reviertas reviertan revirtiendo revertido reviertelo reviertela reviertelos \
    reviertelas reiniciar reinicia reinicie reinicies reinicien reiniciando reiniciado reinicialo reiniciala \
    reinicialos reinicialas iniciar inicia inicie inicies inicien iniciando iniciado inicialo iniciala \
    inicialos inicialas detener deten detenga detengas detengan deteniendo detenido detenlo detenla detenlos \
    detenlas ejecutar ejecuta ejecute ejecutes ejecuten ejecutando ejecutado ejecutalo ejecutala ejecutalos \
    ejecutalas compilar compila compilen compilando compilado compilalo compilala compilalos compilalas \
    construir construye construya construyas construyan construyendo construido construyelo construyela \
    construyelos construyelas generar genera genere generes generen generando generado generalo generala \
    generalos generalas guardar guarda guarde guardes guarden guardando guardado guardalo guardala guardalos \
    guardalas configurar configura configuren configurando configurado configuralo configurala configuralos \
    configuralas activar activa active actives activen activando activado activalo activala activalos \
    activalas desactivar desactiva desactive desactives desactiven desactivando desactivado desactivalo \
    desactivala desactivalos desactivalas migrar migra migre migres migren migrando migrado migralo migrala \
    migralos migralas importar importa importe importes importen importando importado importalo importala \
    importalos importalas limpiar limpia limpie limpies limpien limpiando limpiado limpialo limpiala \
    limpialos limpialas cerrar cierra cierre cierres cierren cerrando cerrado cierralo cierrala cierralos \
    cierralas formatear formatea formatee formatees formateen formateando formateado formatealo formateala \
    formatealos formatealas implementar implementa implemente implementes implementen implementando \
    implementado implementalo implementala implementalos implementalas aplicar aplica aplique apliques \
    apliquen aplicando aplicado aplicalo aplicala aplicalos aplicalas programar programa programe programes \
    programen programando programado programalo programala programalos programalas rellenar rellena rellene \
    rellenes rellenen rellenando rellenado rellenalo rellenala rellenalos rellenalas archivar archiva \
    archiven archivando archivado archivalo archivala archivalos archivalas asignar asigna asigne asignes \
    asignen asignando asignado asignalo asignala asignalos asignalas cancelar cancela cancele canceles \
    cancelen cancelando cancelado cancelalo cancelala cancelalos cancelalas descargar descarga descargue \
    descargues descarguen descargando descargado descargalo descargala descargalos descargalas hacer haz \
    haga hagas hagan haciendo hecho hazlo hazla hazlos hazlas";

/// Words that only read, in English.
const READS_EN: &str = "\
    read reads reading list lists listed listing show shows showed shown showing summarise summarises \
    summarised summarising summarize summarizes summarized summarizing view views viewed viewing display \
    displays displayed displaying find finds found finding search searches searched searching look looks \
    looked looking get gets got getting fetch fetches fetched fetching check checks checked checking inspect \
    inspects inspected inspecting explain explains explained explaining describe describes described \
    describing count counts counted counting compare compares compared comparing print prints printed \
    printing analyse analyses analysed analysing analyze analyzes analyzed analyzing review reviews reviewed \
    reviewing open opens opened opening tell tells told telling see sees saw seen seeing examine examines \
    examined examining verify verifies verified verifying validate validates validated validating calculate \
    calculates calculated calculating compute computes computed computing measure measures measured \
    measuring cat grep ls";

/// The same in Spanish.
const READS_ES: &str = "\
    leer lee lea leas lean leyendo leido leelo leela leelos leelas listar lista liste listes listen listando \
    listado listalo listala listalos listalas mostrar muestra muestre muestres muestren mostrando mostrado \
    muestralo muestrala muestralos muestralas resumir resume resuma resumas resuman resumiendo resumido \
    resumelo resumela resumelos resumelas mirar mira mire mires miren mirando mirado miralo mirala miralos \
    miralas buscar busca busque busques busquen buscando buscado buscalo buscala buscalos buscalas encontrar \
    encuentra encuentre encuentres encuentren encontrando encontrado encuentralo encuentrala encuentralos \
    encuentralas explicar explica explique expliques expliquen explicando explicado explicalo explicala \
    explicalos explicalas describir describa describas describan describiendo descrito describelo describela \
    describelos describelas contar cuente cuentes cuenten contando contado cuentelo cuentela cuentelos \
    cuentelas comparar compara comparen comparando comparado comparalo comparala comparalos comparalas \
    imprimir imprime imprima imprimas impriman imprimiendo imprimido imprimelo imprimela imprimelos \
    imprimelas analizar analiza analice analices analicen analizando analizado analizalo analizala \
    analizalos analizalas revisar revisa revise revises revisen revisando revisado revisalo revisala \
    revisalos revisalas abrir abre abra abras abran abriendo abierto abrelo abrela abrelos abrelas obtener \
    obten obtenga obtengas obtengan obteniendo obtenido obtenlo obtenla obtenlos obtenlas comprobar \
    comprueba compruebe compruebes comprueben comprobando comprobado compruebalo compruebala compruebalos \
    compruebalas consultar consulta consulte consultes consulten consultando consultado consultalo \
    consultala consultalos consultalas examinar examina examinen examinando examinado examinalo examinala \
    examinalos examinalas inspeccionar inspecciona inspeccione inspecciones inspeccionen inspeccionando \
    inspeccionado inspeccionalo inspeccionala inspeccionalos inspeccionalas verificar verifica verifique \
    verifiques verifiquen verificando verificado verificalo verificala verificalos verificalas validar \
    valida valide valides validen validando validado validalo validala validalos validalas calcular calcula \
    calcule calcules calculen calculando calculado calculalo calculala calculalos calculalas ver dime decir";

/// Words that go through many things, and so are loops and broad at once.
const EACH: &str = "each every all cada todos todas";

/// Words that mean many things without a loop.
const WHOLE: &str = "everything everyone everybody entire whole todo toda entero entera";

/// Words of a loop that say nothing of how many things.
const REPEATS: &str = "\
    while until repeat repeats repeatedly loop loops iterate iterates foreach mientras repetir repite repita \
    repitelo";

/// Places and things where a mistake costs much.
const SENSITIVE: &str = "\
    production prod database databases db server servers cluster clusters disk disks system root account \
    accounts password passwords credential credentials secret secrets customer customers bank money payment \
    payments backup backups infrastructure produccion bd servidor servidores disco discos sistema cuenta \
    cuentas contrasena contrasenas credenciales secreto secretos cliente clientes banco dinero pagos \
    respaldo respaldos infraestructura";

/// Words of a condition.
const CONDITION: &str = "if unless when whenever otherwise else si cuando salvo";

/// Words before which a clause ends.
const CONNECTS: &str = "\
    then afterwards afterward subsequently finally lastly luego despues entonces posteriormente finalmente \
    continuacion";

/// Words after which a verb is a further step.
const JOINS: &str = "and y e";

/// Words that are passed over where a clause begins.
const OPENS: &str = "\
    please also now first next you can could should must would i we want need like to just kindly let lets \
    me us after por favor tambien ahora primero quiero quisiera necesito puedes podrias puede podria debes \
    hay que nos";

/// Words that are nothing to do, and end what a joint has begun: the article.
const PARTICLE: &str = "a";

/// Common words that are the second one of a pair in [`PAIRS`].
const LATTER: &str = "that this case ultimo fin caso datos menos";

/// Words that are known and count for nothing else, in English.
const COMMON_EN: &str = "\
    the an of in on at by for from with without within into onto over under about between through before \
    below above against is are was were be been being am do does did done has have had having will shall may \
    might cannot not no yes or but so as than too very it its he she they them their there here these those \
    my your our his her who what which where why how whose some any more most other others another same own \
    only both few many much several new old last latest current previous one two three four five six seven \
    eight nine ten zero half file files folder folders directory directories path paths page pages document \
    documents documentation docs report reports note notes project projects repository repositories repo \
    code source sources function functions class classes module modules package packages library test tests \
    error errors bug bugs warning warnings log logs issue issues request requests result results answer \
    answers question questions table tables row rows column columns record records entry entries field \
    fields value values key keys name names title titles text texts data user users team teams message \
    messages mail address addresses link links image images picture pictures photo photos site website web \
    browser app application service services api version versions branch branches tag tags line lines word \
    words item items order orders product products price prices invoice invoices ticket tickets job jobs \
    task tasks step steps plan plans today tomorrow yesterday day days week weeks month months year years \
    hour hours minute minutes time date size sizes number numbers total sum average high low big small large \
    short long good bad right wrong command commands tool tools agent agents setting settings option options \
    configuration config environment fails failed failing passes passed ready empty missing unused broken \
    temporary local remote public private english spanish don isn doesn ll re ve mr mrs ok thanks hello hi";

/// The same in Spanish.
const COMMON_ES: &str = "\
    el la los las lo un una unos unas de del al en con sin sobre bajo entre desde hasta para segun contra \
    durante es son era fue ser esta estan estaba estar sea sido ha han haber o u pero sino porque pues como \
    mas muy tan se te le les su sus mi mis tu tus nuestro nuestra yo ella ellos ellas nosotros usted ustedes \
    este estos estas ese esa eso esos esas aquel aquella aqui alli ahi donde quien cual cuales cuanto \
    cuantos algun alguno alguna algunos algunas otro otra otros otras mismo misma solo ambos varios varias \
    nuevo nueva nuevos nuevas viejo vieja ultima ultimos ultimas actual anterior siguiente dos tres cuatro \
    cinco seis siete ocho nueve diez archivo archivos fichero ficheros carpeta carpetas directorio \
    directorios ruta rutas pagina paginas documento documentos informe informes nota notas proyecto \
    proyectos repositorio repositorios codigo fuente fuentes funcion funciones clase clases modulo modulos \
    paquete paquetes prueba pruebas fallo fallos aviso avisos registro registros problema problemas peticion \
    peticiones resultado resultados respuesta respuestas pregunta preguntas base bases tabla tablas fila \
    filas columna columnas entrada entradas campo campos valor valores clave claves nombre nombres titulo \
    titulos texto textos usuario usuarios equipo equipos mensaje mensajes correo correos direccion \
    direcciones enlace enlaces imagen imagenes foto fotos sitio aplicacion servicio servicios rama ramas \
    etiqueta etiquetas linea lineas palabra palabras elemento elementos pedido pedidos producto productos \
    precio precios facturas tarea tareas paso pasos hoy manana ayer dia dias semana semanas mes meses ano \
    anos hora horas minuto minutos tiempo fecha fechas contenido cambio cambios tamano numero numeros grande \
    pequeno pequena largo corto bueno malo comando comandos orden ordenes herramienta herramientas agente \
    agentes ajuste ajustes opcion opciones configuracion entorno falla fallan pasan listo vacio temporal \
    temporales ingles espanol gracias hola";

/// Two words with a meaning of their own, which the second one has then.
const PAIRS: &[(&str, &str, Class)] = &[
    ("a", "menos", Class::Condition),
    ("after", "that", Class::Connects),
    ("after", "this", Class::Connects),
    ("de", "datos", Class::Sensitive),
    ("en", "caso", Class::Condition),
    ("in", "case", Class::Condition),
    ("por", "fin", Class::Connects),
    ("por", "ultimo", Class::Connects),
];

const LISTS: &[(Class, &str)] = &[
    (Class::Destroys, DESTROYS_EN),
    (Class::Destroys, DESTROYS_ES),
    (Class::Publishes, PUBLISHES_EN),
    (Class::Publishes, PUBLISHES_ES),
    (Class::Changes, CHANGES_EN),
    (Class::Changes, CHANGES_ES),
    (Class::Reads, READS_EN),
    (Class::Reads, READS_ES),
    (Class::Each, EACH),
    (Class::Whole, WHOLE),
    (Class::Repeats, REPEATS),
    (Class::Sensitive, SENSITIVE),
    (Class::Condition, CONDITION),
    (Class::Connects, CONNECTS),
    (Class::Joins, JOINS),
    (Class::Opens, OPENS),
    (Class::Particle, PARTICLE),
    (Class::Latter, LATTER),
    (Class::Common, COMMON_EN),
    (Class::Common, COMMON_ES),
];

/// The places of the index: a power of two, and at least twice as many as words.
const SLOTS: usize = 8_192;

/// A word's place in its list. A length of 0 is a free slot.
#[derive(Clone, Copy)]
struct Slot {
    list: u8,
    length: u8,
    start: u16,
}

/// The words by their hashes; a word whose slot is taken has the next free one.
static INDEX: [Slot; SLOTS] = index();

const fn index() -> [Slot; SLOTS] {
    let mut slots = [Slot { list: 0, length: 0, start: 0 }; SLOTS];
    let mut list = 0;
    while list < LISTS.len() {
        let words = LISTS[list].1.as_bytes();
        let (mut start, mut at) = (0, 0);
        while at <= words.len() {
            if at == words.len() || words[at] == b' ' {
                let mut slot = first_slot(words, start, at);
                while slots[slot].length > 0 {
                    slot = (slot + 1) % SLOTS;
                }
                slots[slot] = Slot { list: list as u8, length: (at - start) as u8, start: start as u16 };
                start = at + 1;
            }
            at += 1;
        }
        list += 1;
    }
    slots
}

/// The slot at which the search for a word begins: FNV-1a of its bytes.
const fn first_slot(bytes: &[u8], start: usize, end: usize) -> usize {
    let mut hash: u32 = 0x811c_9dc5;
    let mut at = start;
    while at < end {
        hash = (hash ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    (hash ^ (hash >> 16)) as usize % SLOTS
}

/// The word of the lists that this folded one is, with its class.
pub(super) fn lookup(folded: &str) -> Option<(Class, &'static str)> {
    let first = first_slot(folded.as_bytes(), 0, folded.len());
    (0..SLOTS)
        .map_while(|beyond| INDEX.get((first + beyond) % SLOTS).filter(|slot| slot.length > 0))
        .filter_map(|slot| {
            let (class, words) = LISTS.get(usize::from(slot.list))?;
            let start = usize::from(slot.start);
            Some((*class, words.get(start..start + usize::from(slot.length))?))
        })
        .find(|(_, word)| *word == folded)
}

/// The class of a word behind another one, which is that of the pair where there is one.
pub(super) fn behind(previous: &str, word: &str, class: Class) -> Class {
    if class != Class::Latter {
        return class;
    }
    PAIRS.iter().find(|pair| pair.0 == previous && pair.1 == word).map_or(class, |pair| pair.2)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_word_is_found_with_its_class_and_is_in_one_list() {
        let mut all = BTreeSet::new();
        for (class, words) in LISTS {
            for word in words.split(' ') {
                assert_eq!(lookup(word), Some((*class, word)));
                assert!(all.insert(word), "{word}");
            }
        }
        assert!(2 * all.len() <= SLOTS, "{}", all.len());
        assert_eq!(lookup("wombat"), None);
        assert_eq!(lookup(""), None);
    }

    #[test]
    fn words_are_folded_and_short_enough() {
        for word in LISTS.iter().flat_map(|(_, words)| words.split(' ')) {
            assert!(!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase()), "{word}");
            assert!(word.len() <= super::super::reader::WORD_BYTES_MAX, "{word}");
        }
    }

    #[test]
    fn the_second_word_of_a_pair_is_marked() {
        for (first, second, class) in PAIRS {
            assert_eq!(lookup(second), Some((Class::Latter, *second)));
            assert_eq!(behind(first, second, Class::Latter), *class);
            assert_eq!(behind("", second, Class::Latter), Class::Latter);
            assert!(lookup(first).is_some(), "{first}");
        }
    }
}
