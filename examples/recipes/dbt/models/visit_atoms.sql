{{ propcal_atoms(ref('visits'), 'risk', 'admitted', ['race', 'gender']) }}
